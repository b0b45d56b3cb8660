-- ARGV: generator, seq, payload, channel, experiment, SHA-1 of the config it was made under.
-- Answers 1 if this is now the estimate, 0 if a newer one stands.
local g, seq, payload, channel, experiment, made_under = unpack(ARGV)
if redis.sha1hex(redis.call('GET', config)) ~= made_under then
  return {'not-found', 'the experiment was deleted and made again since'}
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
redis.call('PUBLISH', channel, experiment .. ' ' .. g .. ' ' .. seq)
return {'ok', 1}
