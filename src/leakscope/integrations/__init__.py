"""Where leakscope meets other programs. Each file needs an extra of its own and is imported only by who uses it."""
