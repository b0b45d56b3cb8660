-- uses: prelude
-- keys: claims claimed_until
-- args: unit token

-- Ends a claim; nothing happens if the token is not that of the claim.
if holds(unit, token) then
  redis.call('HDEL', claims, unit)
  redis.call('ZREM', claimed_until, unit)
end
return {'ok'}
