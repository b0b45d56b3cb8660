-- Stands before every script of an experiment, below the line that names its keys.

-- The last argument is the experiment's instance, where the caller means one: names are used again.
local meant, instance = table.remove(ARGV), redis.call('HGET', counts, 'instance')
if not instance then
  return {'not-found', 'there is no such experiment'}
end
if meant ~= '' and meant ~= instance then
  return {'not-found', 'the experiment was deleted and made again since'}
end

local superseded = {'superseded', 'another scorer has taken over this generator'}

-- The token of a claim. Its number alone would not do: a Redis that has lost its last writes gives numbers again.
local function token_of(number, owner)
  return instance .. ':' .. number .. ':' .. owner
end

-- Whether a token is that of the generator's claim. One that ran out is good until somebody else takes over.
local function holds(g, token)
  local number, owner = (redis.call('HGET', claims, g) or ''):match('^(%d+) %S+ (.*)$')
  return number and token_of(number, owner) == token
end

-- The time of the script, by the server's clock.
local moment
local function now()
  if not moment then
    local time = redis.call('TIME')
    moment = tonumber(time[1]) + tonumber(time[2]) / 1e6
  end
  return moment
end

-- What stands beside a version: a Redis that has lost its last writes comes to the same version again, never to the same
-- mark. `mark` is the newest of this script.
local mark
local function marked(version)
  mark = string.format('%.6f %d', now(), version)
  return mark
end

-- Numbers what changed of all that picks are made from: who knows the version that stands need not look again.
-- Never the first write of a script, as Redis would refuse it when memory is full.
local function changed()
  redis.call('HSET', counts, 'mark', marked(redis.call('HINCRBY', counts, 'version', 1)))
end
