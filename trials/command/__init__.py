"""Any program as the trial: template in, metrics out."""
