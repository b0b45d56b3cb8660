-- uses: prelude deriving curve
-- keys: estimates units
-- args: generator label seq payload token point chain kernels channel experiment

-- Publishes the estimate at log position `seq`: `estimates` has the payload by unit. point: what charts keep of it, ''
-- for nothing. chain: chained digest of the log at `seq`. Answers 1 if this is now the estimate, 0 if a newer one exists.
-- Picks are made from the estimates of the metrics that decide: only these change the version, and are announced. Those of
-- others are noted by `touch`.
local unit = unit_of(generator, label)
if not holds(unit, token) then
  return superseded
end
local standing = fact(unit, 'seq')
if standing == seq and redis.call('HGET', estimates, unit) == payload then
  return {'ok', 1}
elseif standing and tonumber(standing) >= tonumber(seq) then
  return {'ok', 0}
elseif is_void(generator, seq) or not (follows(generator, seq, chain) and fits(kernels, label)) then
  return outdated
end
redis.call('HSET', estimates, unit, payload)
keep_point(unit, tonumber(seq), point)
local version
if decides(label) then
  changed(generator)
  redis.call('PUBLISH', channel, experiment .. ' ' .. generator .. ' ' .. seq)
else
  version = touch(generator)
end
-- The name of this estimate, for readers that have it already: the last word is the version by which they have read it.
-- Retractions, and lost writes, never make it come again.
local made = table.concat({unit, seq, state_token or string.format('%.6f %d', now(), version)}, ' ')
redis.call('HSET', units, unit .. ':seq', seq, unit .. ':made', made)
forget_facts(unit, 'error')
return {'ok', 1}
