"""For all tests: an example may take as long as the machine makes it take."""

from hypothesis import settings

settings.register_profile("any_machine", deadline=None)  # a busy machine is no fault of the code
settings.load_profile("any_machine")
