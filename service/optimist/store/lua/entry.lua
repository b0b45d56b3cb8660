-- The fields of an entry of a log, one after the other with their values, of a table that has these as strings. What is
-- missing or '' is left out, except that `record` may be ''.
local ENTRY = {'retracts', 'answers', 'pick', 'rows', 'digest', 'chain', 'bytes', 'body', 'record', 'indices', 'counted',
               'prompts', 'context', 'seconds'}
local function entry_of(batch)
  local entry = {}
  for _, name in ipairs(ENTRY) do
    if batch[name] and (batch[name] ~= '' or name == 'record') then
      entry[#entry + 1], entry[#entry + 2] = name, batch[name]
    end
  end
  return entry
end
