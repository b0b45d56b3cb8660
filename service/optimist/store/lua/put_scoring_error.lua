-- uses: prelude
-- keys: scoring_errors
-- args: unit note token

-- Notes why a unit cannot be scored.
if not holds(unit, token) then
  return superseded
end
redis.call('HSET', scoring_errors, unit, note)
return {'ok'}
