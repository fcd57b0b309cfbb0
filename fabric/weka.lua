-- SPDX-License-Identifier: BSD-2-Clause-Patent
-- Wireshark's view of the protocol over TCP (PROTOCOL.md): put it into the personal plugin folder, or
--
--     wireshark -X lua_script:fabric/weka.lua capture.pcap
--     tshark    -X lua_script:fabric/weka.lua -r capture.pcap -Y 'weka.status < 0'
--
-- Any port: a stream whose first word is the magic is ours.  A capsule is a header of 64 bytes, its
-- body if that is longer than 28 bytes, and behind PART, DATA and REPLY as much payload as they say.
-- Each request and its reply point at each other, with the time between them.

local weka = Proto("weka", "WEKA fabric")

local HEADER, SMALL, BODY_MAX, PAYLOAD_MAX = 64, 28, 262144, 4194304
local PART, PULL, DATA, CANCEL, REPLY = 8, 9, 10, 11, 12
local FIRST_REQUEST = 16
local EBUSY = -16

local types = {
	[1] = "HELLO", [2] = "CHALLENGE", [3] = "PROOF", [4] = "WELCOME", [5] = "REFUSE", [6] = "POOL_ADD",
	[7] = "POOL_ADDED", [8] = "PART", [9] = "PULL", [10] = "DATA", [11] = "CANCEL", [12] = "REPLY",
	[16] = "PING", [17] = "READ", [18] = "READ_BATCH", [19] = "OPEN", [20] = "STAT", [21] = "LIST",
	[22] = "READLINK", [23] = "STATFS", [24] = "STATUS", [25] = "PUT", [26] = "PUT_BEGIN",
	[27] = "PUT_COMMIT", [28] = "WRITE", [29] = "TRUNCATE", [30] = "SETATTR", [31] = "MKDIR",
	[32] = "RMDIR", [33] = "UNLINK", [34] = "RENAME", [35] = "SYMLINK", [36] = "PUT_ABORT",
	[37] = "LINK", [38] = "PUNCH", [39] = "SEEK", [40] = "RMTREE",
	[41] = "XATTR_GET", [42] = "XATTR_SET", [43] = "XATTR_LIST", [44] = "XATTR_DEL", [45] = "UNLINK_BATCH",
	[46] = "DRAIN", [47] = "UNDRAIN", [48] = "HOLD", [49] = "LET_GO",
	[50] = "TOTALS", [51] = "CHECK", [52] = "DAMAGED", [53] = "LOG", [54] = "REPORT",
	[55] = "PROTECT",
}
local transports = { [1] = "tcp", [2] = "shm", [3] = "rdma" }
local bys = { [1] = "path", [2] = "handle", [3] = "directory", [4] = "directory handle" }
-- Linux' numbers, which this host's need not be.
local errors = {
	[0] = "ok", [-1] = "EPERM", [-2] = "ENOENT", [-5] = "EIO", [-6] = "ENXIO", [-11] = "EAGAIN", [-12] = "ENOMEM",
	[-13] = "EACCES", [-16] = "EBUSY", [-17] = "EEXIST", [-18] = "EXDEV", [-19] = "ENODEV", [-20] = "ENOTDIR",
	[-21] = "EISDIR", [-22] = "EINVAL", [-23] = "ENFILE", [-24] = "EMFILE", [-27] = "EFBIG", [-28] = "ENOSPC", [-30] = "EROFS",
	[-31] = "EMLINK", [-36] = "ENAMETOOLONG", [-39] = "ENOTEMPTY", [-40] = "ELOOP", [-71] = "EPROTO", [-74] = "EBADMSG",
	[-87] = "EUSERS", [-90] = "EMSGSIZE", [-93] = "EPROTONOSUPPORT", [-104] = "ECONNRESET",
	[-110] = "ETIMEDOUT", [-116] = "ESTALE", [-125] = "ECANCELED",
}

local f = {
	magic = ProtoField.string("weka.magic", "Magic"),
	version = ProtoField.uint8("weka.version", "Version"),
	type = ProtoField.uint8("weka.type", "Type", base.DEC, types),
	region = ProtoField.uint16("weka.region", "Region of the pool"),
	id = ProtoField.uint64("weka.request_id", "Request id"),
	deadline = ProtoField.uint32("weka.deadline", "Deadline (us)"),
	status = ProtoField.int32("weka.status", "Status", base.DEC, errors),
	body_bytes = ProtoField.uint32("weka.body_bytes", "Bytes of body"),
	window_block = ProtoField.uint32("weka.window_block", "First block of the window"),
	window_blocks = ProtoField.uint32("weka.window_blocks", "Blocks of the window"),
	retry = ProtoField.uint32("weka.retry_ms", "Ask again after (ms)"),
	check = ProtoField.uint32("weka.check", "Checksum", base.HEX),
	body_check = ProtoField.uint32("weka.body_check", "Checksum of the body", base.HEX),
	body = ProtoField.bytes("weka.body", "Body"),
	payload = ProtoField.bytes("weka.payload", "Payload"),
	at = ProtoField.uint32("weka.at", "At byte of the window"),
	length = ProtoField.uint32("weka.length", "Bytes of payload"),
	pull = ProtoField.uint32("weka.pull", "Pull"),
	count = ProtoField.uint32("weka.count", "Items"),
	handle = ProtoField.bytes("weka.handle", "Handle"),
	offset = ProtoField.uint64("weka.offset", "Offset"),
	bytes = ProtoField.uint64("weka.bytes", "Bytes"),
	by = ProtoField.uint8("weka.by", "Named by", base.DEC, bys),
	name = ProtoField.string("weka.name", "Name"),
	state = ProtoField.int64("weka.state", "State (ctime)"),
	text = ProtoField.string("weka.text", "Text"),
	key_id = ProtoField.string("weka.key_id", "Key"),
	transport = ProtoField.uint8("weka.transport", "Transport", base.DEC, transports),
	credits = ProtoField.uint32("weka.credits", "Credits"),
	session = ProtoField.uint64("weka.session", "Session", base.HEX),
	lane = ProtoField.uint16("weka.lane", "Lane"),
	core = ProtoField.uint32("weka.core", "Core"),
	cores = ProtoField.uint32("weka.cores", "Cores"),
	lanes = ProtoField.uint32("weka.lanes", "Lanes of a session, at most"),
	appliance = ProtoField.bytes("weka.appliance", "Appliance"),
	client = ProtoField.bytes("weka.client", "Client"),
	mark = ProtoField.uint64("weka.mark", "Mark"),
	forgotten = ProtoField.uint64("weka.forgotten", "Forgotten up to"),
	again = ProtoField.bool("weka.again", "Asked for again"),
	request_in = ProtoField.framenum("weka.request_in", "Request in", base.NONE, frametype.REQUEST),
	reply_in = ProtoField.framenum("weka.reply_in", "Reply in", base.NONE, frametype.RESPONSE),
	time = ProtoField.double("weka.time", "Time since the request (s)"),
}
weka.fields = f

local bad_check = ProtoExpert.new("weka.check.bad", "Wrong checksum", expert.group.CHECKSUM, expert.severity.ERROR)
local bad_capsule = ProtoExpert.new("weka.bad", "Not a capsule", expert.group.MALFORMED, expert.severity.ERROR)
weka.experts = { bad_check, bad_capsule }

local crc_table = {}
for n = 0, 255 do
	local c = n
	for _ = 1, 8 do
		c = bit32.bxor(bit32.rshift(c, 1), bit32.band(c, 1) == 1 and 0x82F63B78 or 0)
	end
	crc_table[n] = c
end

local function crc32c(range)
	local bytes, c = range:bytes(), 0xFFFFFFFF
	for i = 0, bytes:len() - 1 do
		c = bit32.bxor(bit32.rshift(c, 8), crc_table[bit32.band(bit32.bxor(c, bytes:get_index(i)), 255)])
	end
	return bit32.bxor(c, 0xFFFFFFFF)
end

-- Requests and replies, by stream and id: {request = frame, time, reply = frame}.
local calls = {}
function weka.init()
	calls = {}
end

local stream_of = Field.new("tcp.stream")

local function call_of(id)
	local key = tostring(stream_of().value) .. "/" .. tostring(id)
	calls[key] = calls[key] or {}
	return calls[key]
end

local function link(type, id, pinfo, tree)
	local call = call_of(id)
	if type >= FIRST_REQUEST then
		if not pinfo.visited then
			call.request, call.time, call.name = pinfo.number, pinfo.abs_ts, types[type]
		end
		if call.reply then
			tree:add(f.reply_in, call.reply):set_generated()
		end
	elseif type == REPLY then
		call.reply = pinfo.number
		if call.request then
			tree:add(f.request_in, call.request):set_generated()
			tree:add(f.time, pinfo.abs_ts - call.time):set_generated()
		end
	end
	return call
end

-- ---- bodies ---------------------------------------------------------------------------------

-- A name's 24 bytes at `at` of the body.
local function add_name(body, at, tree)
	local by, bytes, name_at = body(at, 1):uint(), body(at + 2, 2):le_uint(), body(at + 4, 4):le_uint()
	tree:add(f.by, body(at, 1))
	if by ~= 1 then
		tree:add(f.handle, body(at + 8, 16))
	end
	if body(at + 1, 1):uint() % 4 >= 2 and name_at + 8 <= body:len() then -- the state of the file
		tree:add_le(f.state, body(name_at, 8))
		name_at = name_at + 8
	end
	if bytes > 0 and name_at + bytes <= body:len() then
		tree:add(f.name, body(name_at, bytes))
	end
end

-- Adds items of item_bytes each, behind a count.  more: adds the fields behind an item's name.
local function add_items(body, tree, item_bytes, more)
	local count = body(0, 4):le_uint()
	tree:add_le(f.count, body(0, 4))
	for i = 0, count - 1 do
		local at = 8 + i * item_bytes
		if at + item_bytes > body:len() then
			return
		end
		local item = tree:add(weka, body(at, item_bytes), "Item " .. i)
		add_name(body, at, item)
		if more then
			more(body, at + 24, item)
		end
	end
end

local function add_extent(body, at, tree)
	tree:add_le(f.offset, body(at, 8))
	tree:add_le(f.bytes, body(at + 8, 8))
end

local function named(body, tree)
	add_name(body, 0, tree)
end

local function handled(body, tree)
	tree:add(f.handle, body(0, 16))
end

local function moved(body, tree)
	tree:add_le(f.at, body(0, 4))
	tree:add_le(f.length, body(4, 4))
	if body(8, 4):le_uint() ~= 0 then
		tree:add_le(f.pull, body(8, 4))
	end
end

local bodies = {
	[1] = function(body, tree)
		tree:add(f.transport, body(2, 1))
		tree:add_le(f.credits, body(8, 4))
		tree:add(f.key_id, body(32, 32))
		if body(112, 4):le_uint() ~= 0 or body(116, 4):le_uint() ~= 0 then
			tree:add_le(f.session, body(112, 8))
			tree:add_le(f.lane, body(120, 2))
			tree:add_le(f.core, body(122, 2))
		end
		tree:add(f.client, body(96, 16))
	end,
	[2] = function(body, tree)
		tree:add_le(f.credits, body(8, 4))
		tree:add_le(f.cores, body(96, 4))
		tree:add_le(f.lanes, body(104, 4))
		tree:add(f.appliance, body(112, 16))
	end,
	[4] = function(body, tree)
		tree:add_le(f.session, body(0, 8))
		tree:add_le(f.core, body(8, 4))
		tree:add_le(f.mark, body(12, 8))
		tree:add_le(f.forgotten, body(20, 8))
	end,
	[5] = function(body, tree)
		tree:add(f.text, body())
	end,
	[PART] = moved, [PULL] = moved, [DATA] = moved,
	[17] = function(body, tree)
		handled(body, tree)
		tree:add_le(f.offset, body(16, 8))
	end,
	[18] = function(body, tree) add_items(body, tree, 40, add_extent) end,
	[20] = function(body, tree) add_items(body, tree, 24) end,
	[25] = function(body, tree) add_items(body, tree, 64) end,
	[45] = function(body, tree) add_items(body, tree, 24) end,
	[48] = function(body, tree) add_items(body, tree, 24) end,
	[49] = function(body, tree) add_items(body, tree, 24) end,
	[51] = function(body, tree)
		add_name(body, 0, tree)
		add_extent(body, 24, tree)
	end,
	[27] = handled, [29] = handled, [36] = handled,
	[28] = function(body, tree)
		handled(body, tree)
		tree:add_le(f.offset, body(16, 8))
	end,
	[34] = function(body, tree)
		add_name(body, 0, tree)
		add_name(body, 24, tree)
	end,
}
for _, type in ipairs({ 19, 21, 22, 26, 30, 31, 32, 33, 35 }) do
	bodies[type] = named
end
bodies[37] = bodies[34]
bodies[38] = function(body, tree)
	handled(body, tree)
	tree:add_le(f.offset, body(16, 8))
	tree:add_le(f.bytes, body(24, 8))
end
bodies[39] = bodies[28]

-- ---- capsules -------------------------------------------------------------------------------

local function has_status(type)
	return type == REPLY or type == 5 or type == 7
end

-- The capsule's length, payload and all, or 0: more bytes are needed to say.
local function capsule_bytes(buffer, at)
	if buffer:len() - at < HEADER then
		return 0
	end
	local type, body = buffer(at + 5, 1):uint(), buffer(at + 20, 4):le_uint()
	local whole = HEADER + (body > SMALL and body or 0)
	if type == PART or type == DATA then
		whole = whole + buffer(at + 36, 4):le_uint()
	elseif type == REPLY then
		whole = whole + 4096 * buffer(at + 28, 4):le_uint()
	end
	return whole
end

local function is_capsule(buffer, at)
	return buffer(at, 4):string() == "WKF1" and types[buffer(at + 5, 1):uint()] and
		buffer(at + 20, 4):le_uint() <= BODY_MAX and
		(buffer:len() - at < HEADER or capsule_bytes(buffer, at) <= HEADER + BODY_MAX + PAYLOAD_MAX)
end

local function add_header(buffer, tree, type)
	tree:add(f.magic, buffer(0, 4))
	tree:add(f.version, buffer(4, 1))
	tree:add(f.type, buffer(5, 1))
	tree:add_le(f.region, buffer(6, 2))
	tree:add_le(f.id, buffer(8, 8))
	if type >= FIRST_REQUEST and bit32.band(buffer(8, 2):le_uint(), 0xC000) == 0xC000 then
		tree:add(f.again, buffer(8, 2), true)
	end
	tree:add_le(has_status(type) and f.status or f.deadline, buffer(16, 4))
	tree:add_le(f.body_bytes, buffer(20, 4))
	local busy = type == REPLY and buffer(16, 4):le_int() == EBUSY
	tree:add_le(busy and f.retry or f.window_block, buffer(24, 4))
	local blocks = tree:add_le(f.window_blocks, buffer(28, 4))
	if type == REPLY and buffer(16, 4):le_int() ~= 0 and buffer(28, 4):le_uint() > 0 then
		blocks:add_proto_expert_info(bad_capsule)
	end
	local check = tree:add_le(f.check, buffer(60, 4))
	if crc32c(buffer(0, 60)) ~= buffer(60, 4):le_uint() then
		check:add_proto_expert_info(bad_check)
	end
end

local function add_body(buffer, tree, type)
	local size = buffer(20, 4):le_uint()
	if size == 0 then
		return
	end
	local body = size <= SMALL and buffer(32, size) or buffer(HEADER, size)
	if size > SMALL then
		local check = tree:add_le(f.body_check, buffer(32, 4))
		if crc32c(body) ~= buffer(32, 4):le_uint() then
			check:add_proto_expert_info(bad_check)
		end
	end
	local branch = tree:add(f.body, body)
	if bodies[type] then
		-- Shorter than its table says: shown as bytes, and as what it is.
		if not pcall(bodies[type], body:tvb(), branch) then
			branch:add_proto_expert_info(bad_capsule)
		end
	end
end

local function summary(buffer, type, call)
	local text = types[type]
	if type == REPLY then
		local status = buffer(16, 4):le_int()
		if status == EBUSY then
			return "REPLY to " .. (call.name or "?") .. ": EBUSY, again after " .. buffer(24, 4):le_uint() .. " ms"
		end
		text = "REPLY to " .. (call.name or "?") .. (status < 0 and ": " .. (errors[status] or status) or "")
	elseif type == PART or type == PULL or type == DATA then
		text = text .. " of " .. buffer(36, 4):le_uint()
	end
	return text
end

local function dissect_one(buffer, pinfo, root)
	local type = buffer(5, 1):uint()
	local tree = root:add(weka, buffer(), "WEKA " .. types[type])
	add_header(buffer, tree, type)
	local call = (type >= FIRST_REQUEST or type == REPLY) and link(type, buffer(8, 8):le_uint64(), pinfo, tree) or {}
	add_body(buffer, tree, type)
	local body = buffer(20, 4):le_uint()
	local behind = HEADER + (body > SMALL and body or 0)
	if buffer:len() > behind then
		tree:add(f.payload, buffer(behind))
	end
	local text = summary(buffer, type, call)
	tree:append_text(", " .. text)
	return text
end

function weka.dissector(buffer, pinfo, root)
	local at, said = 0, {}
	while at < buffer:len() do
		if buffer:len() - at >= 24 and not is_capsule(buffer, at) then
			root:add(weka, buffer(at)):add_proto_expert_info(bad_capsule)
			break
		end
		local whole = capsule_bytes(buffer, at)
		if whole == 0 or whole > buffer:len() - at then
			pinfo.desegment_offset = at
			pinfo.desegment_len = whole == 0 and DESEGMENT_ONE_MORE_SEGMENT or whole - (buffer:len() - at)
			break
		end
		said[#said + 1] = dissect_one(buffer(at, whole):tvb(), pinfo, root)
		at = at + whole
	end
	pinfo.cols.protocol = "WEKA"
	if #said > 0 then
		pinfo.cols.info = table.concat(said, ", ")
	end
	return buffer:len()
end

-- A connection that begins with a hello or its answer is ours, on any port, for the whole stream.
weka:register_heuristic("tcp", function(buffer, pinfo, root)
	if buffer:len() < 24 or not is_capsule(buffer, 0) then
		return false
	end
	pinfo.conversation = weka
	weka.dissector(buffer, pinfo, root)
	return true
end)
