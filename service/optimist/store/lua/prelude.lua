-- keys: counts claims tokens changes
-- args: instance

-- Comes first in every script that needs an existing experiment. `instance`: the one that the caller means, '' for
-- any, because a name can be used again after a deletion.
local meant, instance = instance, redis.call('HGET', counts, 'instance')
if not instance then
  return {'not-found', 'there is no such experiment'}
end
if meant ~= '' and meant ~= instance then
  return {'not-found', 'the experiment was deleted and made again since'}
end

local superseded = {'superseded', 'another scorer has taken over this generator'}

-- Whether a token is that of the claim of a unit (units.lua). An expired claim is valid until another owner takes over.
local function holds(unit, token)
  return redis.call('HGET', claims, unit) == token
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

-- The token that is stored beside a version: a Redis that has lost its last writes reaches the same version again, but
-- never the same token. `state_token` is the newest of this script. `tokens` has the last `TOKENS`, by the version modulo
-- their number, so that it is known whether what somebody has read is a part of what happened here.
local TOKENS = 128
local state_token
local function new_token(version)
  state_token = string.format('%.6f %d', now(), version)
  redis.call('HSET', tokens, version % TOKENS, state_token)
  return state_token
end

-- Notes which generator a change is of, so that others need not be read again, or 'worker:<name>'; '*' where it may be of
-- all, or of what is no generator's. `changes` is a sorted set of these by the version of their last change.
local function note_change(version, g)
  redis.call('ZADD', changes, version, g)
end

-- Increments the version, which counts the changes of all that picks are made from: a caller who knows the current
-- version need not read the state again. Never the first write of a script that frees memory: Redis refuses it when
-- memory is full. g: the generator whose change it is, nil for more than one.
local function changed(g)
  local version = redis.call('HINCRBY', counts, 'version', 1)
  redis.call('HSET', counts, 'state_token', new_token(version))
  note_change(version, g or '*')
end

-- Notes a change that does not change the version: whoever has read this one reads the generator again. g: as of `changed`.
-- Answers the version by which everybody has read it.
local function note_later(g)
  local version = (redis.call('HGET', counts, 'version') or 0) + 1
  note_change(version, g or '*')
  return version
end

-- Marks a change of what reports show beside that: `noted` in `counts` is when the last one was made. g: as of `changed`.
local function touch(g)
  redis.call('HSET', counts, 'noted', string.format('%.6f', now()))
  return note_later(g)
end
