"""MLflow: a view of the records, never their source."""
