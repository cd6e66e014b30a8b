"""A real server under load, and what it answers: launch, warm up, load, check the answers, stop."""
