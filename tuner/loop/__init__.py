"""The parts of the study's loop (`tuner.study`): tickets, what is owed after a cut, when it is enough, who watches."""
