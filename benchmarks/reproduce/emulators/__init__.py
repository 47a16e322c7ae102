"""Emulators of systems that the papers measure and that PSoup is not. Only the experiments and tests import them."""
