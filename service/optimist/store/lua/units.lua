-- keys: units labels counts

-- A unit is a generator as one metric scores it, "<g>:<label>"; what is made of all generators by one metric has the
-- units "mixture:<label>" and "model:<label>". `units` holds their facts:
--   <unit>:seq, :made                    log position of the newest estimate, and a name that no other one has
--   <unit>:error                         why it cannot be scored, or made
--   <unit>:snapshot, :snapshot_chunks, :snapshot_seq, :snapshot_digest, :snapshot_chain, :snapshot_bytes
--                                        the snapshot: its name, chunks, log position, SHA-256, the chained digest of the
--                                        log there, and the bytes of the bodies up to there
--   <unit>:upload, :upload_chunks        name and chunks of a snapshot on its way
--   <label>:fitted, :fitted_from         what put_fitted.lua notes of the kernels that samples fixed
-- `labels` are those of all metrics, in order: the first one decides, and picks are made from its units; where there are
-- limits on others, `limited` in `counts` has the labels of these, with spaces between them, which decide, too.

local function unit_of(g, label)
  return g .. ':' .. label
end

local function fact(unit, name)
  return redis.call('HGET', units, unit .. ':' .. name)
end

local function forget_facts(unit, ...)
  for _, name in ipairs({...}) do
    redis.call('HDEL', units, unit .. ':' .. name)
  end
end

local function all_labels()
  return redis.call('LRANGE', labels, 0, -1)
end

-- The labels of the metrics that decide.
local function deciding_labels()
  local found = {redis.call('LINDEX', labels, 0)}
  for label in (redis.call('HGET', counts, 'limited') or ''):gmatch('%S+') do
    found[#found + 1] = label
  end
  return found
end

local function decides(label)
  for _, deciding in ipairs(deciding_labels()) do
    if label == deciding then
      return true
    end
  end
  return false
end

-- The log position of the snapshot of a unit; 0 without one.
local function snapshot_seq(unit)
  return tonumber(fact(unit, 'snapshot_seq') or 0)
end
