-- uses: prelude
-- keys: damaged
-- args: unit note token

-- Notes why a unit cannot be scored.
if not holds(unit, token) then
  return superseded
end
redis.call('HSET', damaged, unit, note)
return {'ok'}
