def write_page(results, path): return path
