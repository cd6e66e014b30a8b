"""Shows a study: report page and plots. Decides and measures nothing."""
