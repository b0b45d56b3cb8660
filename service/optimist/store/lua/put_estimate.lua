-- ARGV: generator, seq, payload, token, channel, experiment.
-- Answers 1 if this is now the estimate, 0 if a newer one stands.
local g, seq, payload, token, channel, experiment = unpack(ARGV)
if not holds(g, token) then
  return superseded
end
local entry = seq .. ' ' .. payload
local standing = redis.call('HGET', estimates, g)
if standing == entry then
  return {'ok', 1}
elseif standing and tonumber(standing:match('^%d+')) >= tonumber(seq) then
  return {'ok', 0}
end
redis.call('HSET', estimates, g, entry)
redis.call('HDEL', damaged, g)
changed()
redis.call('PUBLISH', channel, experiment .. ' ' .. g .. ' ' .. seq)
return {'ok', 1}
