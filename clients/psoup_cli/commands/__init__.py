"""The commands, one module each; `psoup_cli.app` puts them together."""
