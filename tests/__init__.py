"""Contract suites for families, sentences for behaviour."""
