-- uses: prelude deriving
-- keys: estimates damaged curve counts
-- args: generator seq payload token point chain kernels channel experiment

-- Publishes the estimate at log position `seq`. point: what charts keep of it, '' for nothing. chain: chained digest of
-- the log at `seq`. Answers 1 if this is now the estimate, 0 if a newer one exists.
if not holds(generator, token) then
  return superseded
end
local entry = seq .. ' ' .. payload
local standing = redis.call('HGET', estimates, generator)
if standing == entry then
  return {'ok', 1}
elseif standing and tonumber(standing:match('^%d+')) >= tonumber(seq) then
  return {'ok', 0}
elseif is_void(generator, seq) or not (follows(generator, seq, chain) and fits(kernels)) then
  return outdated
end
redis.call('HSET', estimates, generator, entry)
redis.call('HDEL', damaged, generator)

-- A point is kept once the position has grown by a 32nd: their number grows with its logarithm, to 400 at a million.
local last = redis.call('LINDEX', curve .. ':' .. generator, -1)
local kept = last and tonumber(last:match('^%d+ (%d+)')) or 0
if point ~= '' and tonumber(seq) >= kept * (1 + 1 / 32) then
  redis.call('RPUSH', curve .. ':' .. generator, redis.call('HGET', counts, 'told') .. ' ' .. seq .. ' ' .. point)
end
changed()
-- The name of this estimate, for readers that have it already. Retractions, and lost writes, never make it come again.
redis.call('HSET', counts, 'made_' .. generator, seq .. ' ' .. mark)
redis.call('PUBLISH', channel, experiment .. ' ' .. generator .. ' ' .. seq)
return {'ok', 1}
