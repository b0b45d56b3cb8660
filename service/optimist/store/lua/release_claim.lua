-- ARGV: generator, token.
if holds(ARGV[1], ARGV[2]) then
  redis.call('HDEL', claims, ARGV[1])
end
return {'ok'}
