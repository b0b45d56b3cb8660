-- uses: prelude
-- keys: damaged
-- args: generator note token

-- Notes why a generator cannot be scored.
if not holds(generator, token) then
  return superseded
end
redis.call('HSET', damaged, generator, note)
return {'ok'}
