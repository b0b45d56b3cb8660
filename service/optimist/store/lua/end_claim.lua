-- uses: prelude
-- keys: claims
-- args: unit token

-- Ends a claim; nothing happens if the token is not that of the claim.
if holds(unit, token) then
  redis.call('HDEL', claims, unit)
end
return {'ok'}
