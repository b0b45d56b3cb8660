-- ARGV: generator, payload, token. Answers what stands, which is what was put first.
local g, payload, token = unpack(ARGV)
if not holds(g, token) then
  return superseded
end
redis.call('SETNX', fitted, payload)
return {'ok', redis.call('GET', fitted)}
