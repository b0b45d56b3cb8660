-- ARGV: generator, note.
redis.call('HSET', damaged, ARGV[1], ARGV[2])
return {'ok'}
