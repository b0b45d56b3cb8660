-- uses: prelude
-- keys: units counts
-- args: unit note token

-- Notes why a unit cannot be scored; `noted` in `counts` is when the last note came.
if not holds(unit, token) then
  return superseded
end
redis.call('HSET', units, unit .. ':error', note)
redis.call('HSET', counts, 'noted', string.format('%.6f', now()))
return {'ok'}
