"""Who proposes the next configuration: the Sampler protocol (ask, tell), Optuna behind it."""
