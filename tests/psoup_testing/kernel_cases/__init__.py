"""Random arguments of kernels: a module has the name of the kernels that it is mostly about; `all_cases` lists all."""
