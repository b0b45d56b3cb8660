-- ARGV: generator, payload, token, SHA-1 of the payload; generator, seq and chained digest of the last batch of each log
-- that it was made of. Answers what stands, which is what was put first.
local g, payload, token, kernels = unpack(ARGV, 1, 4)
if not holds(g, token) then
  return superseded
end
for i = 5, #ARGV, 3 do
  if not follows(unpack(ARGV, i, i + 2)) then
    return outdated
  end
end
if redis.call('SETNX', fitted, payload) == 1 then
  redis.call('HSET', counts, 'fitted', kernels)
end
return {'ok', redis.call('GET', fitted)}
