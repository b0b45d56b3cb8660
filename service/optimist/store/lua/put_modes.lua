-- ARGV: generator, seq, payload, token, channel, experiment, chained digest of the log at seq, kernels that were fixed.
-- Answers 1 if these are now the modes, 0 if newer ones stand.
local g, seq, payload, token, channel, experiment, chain, kernels = unpack(ARGV)
if not holds(g, token) then
  return superseded
end
local standing = redis.call('HGET', modes, g)
if standing and tonumber(standing:match('^%d+')) > tonumber(seq) then
  return {'ok', 0}
elseif not (follows(g, seq, chain) and fits(kernels)) then
  return outdated
end
redis.call('HSET', modes, g, seq .. ' ' .. payload)
redis.call('PUBLISH', channel, experiment .. ' ' .. g .. ' ' .. seq)
return {'ok', 1}
