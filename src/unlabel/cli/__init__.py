"""The command `unlabel`: a file per command, `app` has them all and `main` runs one."""
