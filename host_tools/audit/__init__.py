"""Telling people, and other programs, what a trace will do."""
