from tests.unit.cli.conftest import tuner

__all__ = ["tuner"]
