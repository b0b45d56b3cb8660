-- ARGV: generator, seq, payload, channel, experiment, SHA-1 of the config they were made under.
-- Answers 1 if these are now the modes, 0 if newer ones stand.
local g, seq, payload, channel, experiment, made_under = unpack(ARGV)
if redis.sha1hex(redis.call('GET', config)) ~= made_under then
  return {'not-found', 'the experiment was deleted and made again since'}
end
local standing = redis.call('HGET', modes, g)
if standing and tonumber(standing:match('^%d+')) > tonumber(seq) then
  return {'ok', 0}
end
redis.call('HSET', modes, g, seq .. ' ' .. payload)
redis.call('PUBLISH', channel, experiment .. ' ' .. g .. ' ' .. seq)
return {'ok', 1}
