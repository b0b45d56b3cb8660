-- ARGV: generator, seq, payload, token, channel, experiment, what charts keep of it ('' for nothing), chained digest of the
-- log at seq, kernels that were fixed.
-- Answers 1 if this is now the estimate, 0 if a newer one stands.
local g, seq, payload, token, channel, experiment, point, chain, kernels = unpack(ARGV)
if not holds(g, token) then
  return superseded
end
local entry = seq .. ' ' .. payload
local standing = redis.call('HGET', estimates, g)
if standing == entry then
  return {'ok', 1}
elseif standing and tonumber(standing:match('^%d+')) >= tonumber(seq) then
  return {'ok', 0}
elseif not (follows(g, seq, chain) and fits(kernels)) then
  return outdated
end
redis.call('HSET', estimates, g, entry)
redis.call('HDEL', damaged, g)

-- A point is kept once the position has grown by a 32nd: their number grows with its logarithm, some 400 at a million.
local last = redis.call('LINDEX', curve .. ':' .. g, -1)
local kept = last and tonumber(last:match('^%d+ (%d+)')) or 0
if point ~= '' and tonumber(seq) >= kept * (1 + 1 / 32) then
  redis.call('RPUSH', curve .. ':' .. g, redis.call('HGET', counts, 'told') .. ' ' .. seq .. ' ' .. point)
end
changed()
redis.call('PUBLISH', channel, experiment .. ' ' .. g .. ' ' .. seq)
return {'ok', 1}
