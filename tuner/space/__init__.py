"""What the user writes: a YAML space file becomes a StudyFile, or a list of problems with file and line."""
