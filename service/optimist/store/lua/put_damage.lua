-- ARGV: generator, note, token.
local g, note, token = unpack(ARGV)
if not holds(g, token) then
  return superseded
end
redis.call('HSET', damaged, g, note)
return {'ok'}
