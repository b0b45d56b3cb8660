-- uses: prelude
-- keys: units
-- args: unit note token

-- Notes why a unit cannot be scored.
if not holds(unit, token) then
  return superseded
end
redis.call('HSET', units, unit .. ':error', note)
touch(unit:match('^%d+'))
return {'ok'}
