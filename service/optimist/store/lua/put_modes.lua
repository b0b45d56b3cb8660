-- ARGV: generator, seq, payload, token, channel, experiment.
-- Answers 1 if these are now the modes, 0 if newer ones stand.
local g, seq, payload, token, channel, experiment = unpack(ARGV)
if not holds(g, token) then
  return superseded
end
local standing = redis.call('HGET', modes, g)
if standing and tonumber(standing:match('^%d+')) > tonumber(seq) then
  return {'ok', 0}
end
redis.call('HSET', modes, g, seq .. ' ' .. payload)
redis.call('PUBLISH', channel, experiment .. ' ' .. g .. ' ' .. seq)
return {'ok', 1}
