-- uses: prelude
-- keys: claims
-- args: generator token

-- Ends a claim; nothing happens if the token is not that of the claim.
if holds(generator, token) then
  redis.call('HDEL', claims, generator)
end
return {'ok'}
