-- uses: prelude picks units
-- keys: opening_lock counts leases picks terms expired_order decision
-- keys: generators states controls estimates units quarantined returned named_copies artefacts retractions acceptances
-- keys: tokens changes
-- args: since since_token since_rounds renewed* held*

-- held: the names of the estimates, mixtures and models that the caller has, whose contents are left out.
-- since: the version that the caller has read, '' for none; since_token, since_rounds: the state token and the number of
-- picks of then. Where that is a part of what happened here, and all changes since are of single generators, `read_changes`
-- answers these, and those that are `renewed`; else the caller reads everything.

-- Whether `who` has the opening lock now, for `milliseconds`. One that lasts longer than that means
-- that the server's clock was set back.
local function take_opening_lock(who, milliseconds)
  if redis.call('SET', opening_lock, who, 'NX', 'PX', milliseconds) or redis.call('GET', opening_lock) == who then
    return true
  elseif redis.call('PTTL', opening_lock) <= tonumber(milliseconds) then
    return false
  end
  redis.call('SET', opening_lock, who, 'PX', milliseconds)
  return true
end

local is_held = {}
for _, made in ipairs(held) do
  is_held[made] = true
end

-- What is known of a generator by a metric, as {generator, label, position and name of its newest estimate, scoring error,
-- position and bytes of its snapshot, payload}. is_new: whether the payload of the estimate of this name is wanted.
local function read_unit(g, label, is_new)
  local unit = unit_of(g, label)
  local seq, made, note, snapshot_at, bytes = unpack(redis.call('HMGET', units, unit .. ':seq', unit .. ':made',
    unit .. ':error', unit .. ':snapshot_seq', unit .. ':snapshot_bytes'))
  return {g, label, seq, made, note, snapshot_at, bytes, made and is_new(made) and redis.call('HGET', estimates, unit)}
end

-- `read_unit` of all generators by each of these metrics. Without `wants_estimates` there are no payloads.
local function read_units(among, wants_estimates)
  local found = {}
  for _, label in ipairs(among) do
    for g = 0, redis.call('HLEN', generators) - 1 do
      found[#found + 1] = read_unit(g, label, function(made) return wants_estimates and not is_held[made] end)
    end
  end
  return found
end

-- Name, parts and, where it is wanted, payload of an artefact; the name alone where the caller has it.
local function read_artefact(artefact, wants_payload)
  local made = redis.call('HGET', artefacts, artefact .. ':made')
  if not made or is_held[made] then
    return {made}
  end
  local parts = redis.call('HGET', artefacts, artefact .. ':parts')
  return {made, parts, wants_payload and redis.call('HGET', artefacts, artefact .. ':payload')}
end

-- Frees the leases that ran out. A late pick stays in `picks`, so that its batch is still accepted. A deadline further off
-- than a lease can last means that the server's clock was set back. remembered: how many expired picks are remembered.
local function free_leases(remembered)
  local lease = redis.call('HGET', counts, 'lease')
  if lease then
    local latest = string.format('%.6f', now() + lease)
    for _, number in ipairs(redis.call('ZRANGEBYSCORE', leases, '(' .. latest, '+inf')) do
      -- Removed first, as adding is refused while memory is full.
      redis.call('ZREM', leases, number)
      redis.call('ZADD', leases, latest, number)
    end
  end
  for _, number in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now())) do
    local pick = redis.call('HGET', picks, number)
    release(number, pick)
    hand_back(pick)
    queue(expired_order, tonumber(remembered), number, picks)
    changed(pick:match('^%d+'))
  end
end

-- The leased picks by number: each with its deadline, and where its number is above `from`, what is stored of it.
local function read_picks(from)
  local open = {}
  local leased = redis.call('ZRANGE', leases, 0, -1, 'WITHSCORES')
  for i = 1, #leased, 2 do
    local number = leased[i]
    local is_new = tonumber(number) > from
    open[#open + 1] = {number, leased[i + 1], is_new and redis.call('HGET', picks, number),
                       is_new and redis.call('HGET', terms, number)}
  end
  return open
end

-- Frees the leases that ran out, then answers what has changed since the caller read it; nil where it must read everything.
-- Of a unit the estimate that the caller has is left out. wants_all: whether by all metrics, or only by those that decide.
local function read_changes(remembered, wants_all)
  free_leases(remembered)
  if since == '' or redis.call('HGET', tokens, since % TOKENS) ~= since_token then
    return nil
  end
  local names, among = redis.call('ZRANGEBYSCORE', changes, '(' .. since, '+inf'), wants_all and all_labels() or deciding_labels()
  local taken, found, workers = {}, {}, {}
  for _, list in ipairs({names, renewed}) do
    for _, g in ipairs(list) do
      if g == '*' then
        return nil
      elseif g:match('^worker:') then
        workers[#workers + 1] = {g, redis.call('HGET', counts, g)}
      elseif not taken[g] then
        taken[g] = true
        local of = redis.call('HMGET', counts, g .. ':samples', g .. ':batches', g .. ':seq', g .. ':due_samples', g .. ':due_seq',
          g .. ':handed', g .. ':answered', g .. ':unanswered', g .. ':bytes')
        local states = {}
        for i, label in ipairs(among) do
          states[i] = read_unit(g, label, function(made)
            return tonumber(made:match(' (%d+)$')) > tonumber(since)
          end)
        end
        found[#found + 1] = {g, of, redis.call('HGET', returned, g), states}
      end
    end
  end
  return {'changes', redis.call('HMGET', counts, 'rounds', 'told', 'version', 'state_token', 'last'), read_picks(tonumber(since_rounds)),
          found, workers, string.format('%.6f', now())}
end

-- Frees the leases that ran out, then answers everything that a decision is made from. wants_all: as of `read_changes`.
local function read_state(remembered, wants_all, wants_estimates)
  free_leases(remembered)
  local open = read_picks(0)
  local all, state = all_labels(), {redis.call('GET', decision), open}
  for i, hash in ipairs({counts, generators, states, controls, quarantined, returned, named_copies}) do
    state[2 + i] = redis.call('HGETALL', hash)
  end
  local first = all[1]
  local mixes = redis.call('HEXISTS', counts, 'mixture_growth') == 1
  state[10], state[11] = all, read_units(wants_all and all or deciding_labels(), wants_estimates)
  state[12] = mixes and read_artefact(unit_of('mixture', first), true) or {}
  state[13] = read_artefact(unit_of('model', first), false)
  state[14], state[15] = fact(unit_of('mixture', first), 'error'), fact(unit_of('model', first), 'error')
  state[16], state[17] = redis.call('XRANGE', retractions, '-', '+'), redis.call('XRANGE', acceptances, '-', '+')
  state[18] = string.format('%.6f', now())
  return state
end
