-- ARGV: first byte.
return {'ok', redis.call('GETRANGE', history, ARGV[1], -1)}
