"""A winner as something that runs elsewhere: one module per target."""
