-- ARGV: as `open` takes them.
return open(0, '')
