-- uses: prelude deriving
-- keys: estimates watched scoring_errors curve counts
-- args: generator label seq payload token point chain kernels channel experiment

-- Publishes the estimate at log position `seq`. point: what charts keep of it, '' for nothing. chain: chained digest of
-- the log at `seq`. Answers 1 if this is now the estimate, 0 if a newer one exists.
-- Picks are made from the estimates of the primary metric: only these change the version, and are announced.
local unit = unit_of(generator, label)
if not holds(unit, token) then
  return superseded
end
local made = label == '' and estimates or watched
local entry = seq .. ' ' .. payload
local standing = redis.call('HGET', made, unit)
if standing == entry then
  return {'ok', 1}
elseif standing and tonumber(standing:match('^%d+')) >= tonumber(seq) then
  return {'ok', 0}
elseif is_void(generator, seq) or not (follows(generator, seq, chain) and fits(kernels, label)) then
  return outdated
end
redis.call('HSET', made, unit, entry)
redis.call('HDEL', scoring_errors, unit)

-- A point is kept once the position has grown by a 32nd: their number grows with its logarithm, to 400 at a million.
local points = curve .. ':' .. unit
local last = redis.call('LINDEX', points, -1)
local kept = last and tonumber(last:match('^%d+ (%d+)')) or 0
if point ~= '' and tonumber(seq) >= kept * (1 + 1 / 32) then
  redis.call('RPUSH', points, redis.call('HGET', counts, 'told') .. ' ' .. seq .. ' ' .. point)
end
if label == '' then
  changed()
  redis.call('PUBLISH', channel, experiment .. ' ' .. generator .. ' ' .. seq)
end
-- The name of this estimate, for readers that have it already. Retractions, and lost writes, never make it come again.
redis.call('HSET', facts_of(label), 'made_' .. unit, seq .. ' ' .. (state_token or string.format('%.6f', now())))
return {'ok', 1}
