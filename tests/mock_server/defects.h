/* The ways in which the mock can be wrong: one row each, and each asked for in one place of the code.
 * For the mock's own files. */
#ifndef KVC_TESTS_MOCK_SERVER_DEFECTS_H
#define KVC_TESTS_MOCK_SERVER_DEFECTS_H

#include <stdbool.h>

#include "src/base/error.h"

/* clang-format off */
/* X(identifier, name, what the mock then does, the bug it is modelled on) */
#define MOCK_DEFECTS(X)                                                                            \
    /* framing */                                                                                  \
    X(UNKNOWN_OP_KILLS, "unknown-op-kills", "an unknown operation ends the request loop; HTTP lives on", "B01") \
    X(SHORT_MESSAGE_KILLS, "short-message-kills", "a message of one frame ends the request loop; HTTP lives on", "B01") \
    X(BAD_FIELD_KILLS, "bad-field-kills", "a payload with a field that cannot be read ends the request loop", "B06") \
    X(MALFORMED_KILLS, "malformed-kills", "a payload that is no well-formed msgpack ends the request loop", "B06") \
    X(HUGE_FRAME_KILLS, "huge-frame-kills", "a frame above 16 MiB ends the request loop", "N28") \
    X(MANY_FRAMES_KILL, "many-frames-kill", "a message of more than 255 frames ends the request loop", "implementer's slip") \
    X(REQUEST_TABLE_FULL, "request-table-full", "the request loop ends with a client's request number 8193", "N35") \
    X(HALF_OPEN_KILLS, "half-open-kills", "more than 20 connections that have not greeted yet end the request loop", "B05") \
    X(MEMORY_UNGUARDED, "memory-unguarded", "a worker whose shared memory has become shorter ends the server", "N07") \
    X(STRANGERS_KILL, "strangers-kill", "a connection that does not speak ZMTP 3, or breaks off its greeting, ends the request loop", "B01") \
    X(IDENTITY_HANDED_OVER, "identity-handed-over", "a client that comes with another's socket identity takes its place", "N27") \
    X(DISABLED_OP_KILLS, "disabled-op-kills", "an operation that is switched off ends the request loop", "B09") \
    X(TRANSFERS_REORDERED, "transfers-reordered", "transfers that arrive together are carried out last first", "B61") \
    X(UID_CUT, "uid-cut", "a reply echoes at most the first 8 bytes of the uid", "B04") \
    X(OP_RE_ENCODED, "op-re-encoded", "a reply's operation frame is encoded afresh instead of echoed", "implementer's slip") \
    X(NIL_FOR_VOID, "nil-for-void", "the reply to REPORT_BLOCK_ALLOCATION carries a third frame with nil", "implementer's slip") \
    X(UNREGISTER_NIL, "unregister-nil", "the reply to an unregistration carries a third frame with nil", "implementer's slip") \
    X(REPLY_TWICE, "reply-twice", "every reply is sent twice", "B04") \
    X(TRANSFER_REPLY_TWICE, "transfer-reply-twice", "STORE, RETRIEVE and the two halves of each engine-driven transfer are answered twice", "B04") \
    X(STRAY_REPLY, "stray-reply", "before the reply to a transfer comes one under a uid that nobody has sent", "implementer's slip") \
    X(REPLIES_SWAPPED, "replies-swapped", "two requests in flight get each other's result", "B04") \
    X(SURPLUS_PAYLOAD_ACCEPTED, "surplus-payload-accepted", "payload frames beyond those of the operation are ignored", "B10") \
    X(ERROR_REPLIED, "error-replied", "a request that cannot be read is answered with a text", "B02") \
    X(TOKENS_WRAPPED, "tokens-wrapped", "tokens that do not fit 32 bits are cut instead of refused", "implementer's slip") \
    X(TOKENS_SIGNED, "tokens-signed", "tokens of 2^31 and more are refused", "implementer's slip") \
    X(CLIENTS_MIXED_UP, "clients-mixed-up", "two clients that use one uid above 32 bits at the same time get each other's answer", "B04") \
    X(UID_REMEMBERED, "uid-remembered", "a request that repeats a uid above 32 bits is dropped, whoever sent the earlier one", "implementer's slip") \
    X(ZERO_IS_VOID, "zero-is-void", "a result of 0 or false is sent as none", "implementer's slip") \
    X(BAD_PAYLOAD_MUTES, "bad-payload-mutes", "a client whose payload cannot be read is not answered any more", "B06") \
    X(ONE_FORM_ONLY, "one-form-only", "a payload in any other form than the shortest one, with all fields in order, is refused", "N29") \
    X(LARGE_MESSAGE_DROPPED, "large-message-dropped", "messages above 1 MiB are not answered", "implementer's slip") \
    /* control */                                                                                  \
    X(NOOP_TEXT, "noop-text", "NOOP answers \"ok\" in lower case", "implementer's slip") \
    X(PING_FALSE, "ping-false", "PING answers false for an instance it does not know", "B11") \
    X(PING_LATE, "ping-late", "PING is answered 30 s late", "B05") \
    X(CHUNK_SIZE_CHANGES, "chunk-size-changes", "GET_CHUNK_SIZE answers twice the size once a worker has registered", "B16") \
    X(WAIT_SLEEPS, "wait-sleeps", "WAIT_PREFETCH_STATUS sleeps for its whole timeout while nobody else is served", "B40") \
    X(RESULTS_SLOW_LOOKUPS, "results-slow-lookups", "while more than 32 results wait to be fetched a lookup takes 100 ms", "B40") \
    X(CLEAR_IGNORED, "clear-ignored", "CLEAR empties nothing", "B70") \
    X(CLEAR_DROPS_LOCKED, "clear-drops-locked", "CLEAR without force drops locked chunks as well", "B70") \
    X(CLEAR_KEEPS_LOCKED, "clear-keeps-locked", "CLEAR with force keeps locked chunks", "B70") \
    X(REPORT_SILENT, "report-silent", "REPORT_BLOCK_ALLOCATION is not answered", "B12") \
    X(EXPERIMENTAL_CLAIMED, "experimental-claimed", "GET_EXPERIMENTAL lists the event stream, which the mock does not have", "implementer's slip") \
    /* registration */                                                                             \
    X(REGISTER_AGAIN_IGNORED, "register-again-ignored", "another registration of a known instance is acknowledged and ignored", "B22") \
    X(UNMAPPING_STALLS, "unmapping-stalls", "while a worker of more than 32 layers leaves nobody is served for 1.5 s", "B44") \
    X(UNREGISTER_DROPS_MODEL, "unregister-drops-model", "the first of two workers to leave takes the model with it", "B23") \
    X(UNREGISTER_PUBLISHES, "unregister-publishes", "chunks prepared and never committed become hits when the worker leaves", "B33") \
    X(UNREGISTER_DROPS_CHUNKS, "unregister-drops-chunks", "the last worker of a model takes its stored chunks along", "implementer's slip") \
    X(UNREGISTER_UNKNOWN_SILENT, "unregister-unknown-silent", "unregistering an unknown instance is not answered", "B02") \
    X(LEAVER_STAYS_LISTED, "leaver-stays-listed", "/status goes on listing instances that have left", "B23") \
    X(LEAVER_KEEPS_LOCKS, "leaver-keeps-locks", "what a worker was reading when it left stays locked", "B26") \
    X(ID_NOT_REUSABLE, "id-not-reusable", "an instance id that has left cannot be registered again", "N22") \
    X(MODES_SHARE_IDS, "modes-share-ids", "an instance that leaves takes the one of the other transfer mode with the same id along", "B21") \
    X(WIDE_IDS_REFUSED, "wide-ids-refused", "instance ids outside 32 bits are refused", "B21") \
    X(WORLD_UNCHECKED, "world-unchecked", "a model may run on less than one worker", "4.3: 0.5.1") \
    X(REPEAT_REFUSED, "repeat-refused", "the same registration once more is not answered", "B22") \
    X(PHYSICAL_SLOTS_IGNORED, "physical-slots-ignored", "num_physical_slots is not looked at", "4.3") \
    X(LENGTH_UNCHECKED, "length-unchecked", "a handle that says more bytes than its segment has is taken if the tensor fits", "N23") \
    X(GROUPS_IGNORED, "groups-ignored", "what a registration says of its layers' groups is not looked at", "B53") \
    X(SEGMENTS_BY_NAME, "segments-by-name", "each STORE and RETRIEVE opens the worker's segments by their names", "3.6") \
    X(REAPER_OFF, "reaper-off", "instances that fall silent are never dropped", "B43") \
    X(REAPER_TAKES_ALL, "reaper-takes-all", "instances that never pinged are dropped like those that did", "B42") \
    X(TRANSFERS_NO_LIFE_SIGN, "transfers-no-life-sign", "only registration and PING count as signs of life", "B42") \
    X(HINTS_STRICT, "hints-strict", "a registration with a layout hint that the mock does not know is refused", "N29") \
    X(DTYPE_UNCHECKED, "dtype-unchecked", "an unknown dtype is taken for float16", "B25") \
    X(GEOMETRY_OF_LAST, "geometry-of-last", "slots have the shape of the model's last registration, whoever asks", "B24") \
    X(UNKNOWN_INSTANCE_STORED, "unknown-instance-stored", "STORE and RETRIEVE of an unknown instance answer true", "B02") \
    X(UNKNOWN_INSTANCE_PREPARED, "unknown-instance-prepared", "engine-driven operations of an unknown instance use any other", "B21") \
    X(POOL_NAME_WRONG, "pool-name-wrong", "registration names a pool that does not exist", "B64") \
    X(POOL_OPEN_TO_ALL, "pool-open-to-all", "everybody on the machine may open the pool", "implementer's slip") \
    X(POOL_LEFT_BEHIND, "pool-left-behind", "the pool keeps its name when the mock ends", "B66") \
    X(POOL_CUT_AT_END, "pool-cut-at-end", "the pool is cut to nothing when the mock ends", "B65") \
    X(NO_POOL_SIZED, "no-pool-sized", "registration with a server without a pool says the size that it would have", "B64") \
    X(POOL_SIZE_WRONG, "pool-size-wrong", "registration says that the pool is 1 MiB larger than it is", "B64") \
    /* lookup and sessions */                                                                      \
    X(LOOKUP_ONE_SHORT, "lookup-one-short", "LOOKUP finds one chunk less when the tokens end inside a chunk", "B59") \
    X(LOOKUP_ROUNDS_UP, "lookup-rounds-up", "LOOKUP counts the tokens behind the last full chunk as another one", "B59") \
    X(LOOKUP_ALL_HITS, "lookup-all-hits", "LOOKUP finds every chunk that it is asked for", "N16") \
    X(LOOKUP_FROM_START, "lookup-from-start", "LOOKUP counts from the key's start", "implementer's slip") \
    X(LOOKUP_END_UNBOUNDED, "lookup-end-unbounded", "LOOKUP of a key that ends behind the tokens finds chunks up to there, once all others are found", "4.10: 0.5.4") \
    X(LOOKUP_COUNTS_GAPS, "lookup-counts-gaps", "LOOKUP counts chunks behind the first missing one", "B16") \
    X(LOOKUP_IGNORES_RANK, "lookup-ignores-rank", "LOOKUP does not ask for the last rank's chunks", "B27") \
    X(WAIT_COUNTS_TOKENS, "wait-counts-tokens", "WAIT_PREFETCH_STATUS and QUERY_PREFETCH_LOOKUP_HITS give tokens instead of chunks", "implementer's slip") \
    X(LOOKUP_END_INVERTED, "lookup-end-inverted", "LOOKUP looks behind the key's end where it should not, and stops there where it should look for all tokens", "B59") \
    X(LOOKUP_SEES_UNCOMMITTED, "lookup-sees-uncommitted", "LOOKUP finds chunks that are prepared and not committed", "B33") \
    X(LOOKUP_LOCKS_BEYOND, "lookup-locks-beyond", "LOOKUP leaves a lock on the ranks of the first incomplete chunk", "4.6: 0.5.1") \
    X(LOOKUP_UNREGISTERED, "lookup-unregistered", "LOOKUP finds chunks of a model that no worker is registered for", "B23") \
    X(RESULT_KEPT, "result-kept", "a lookup's result is delivered again and again", "B39") \
    X(RESULT_LOST, "result-lost", "a second lookup with the same request id gives no result", "B39") \
    X(RESULT_OF_LAST, "result-of-last", "QUERY and WAIT give the result of the model's last lookup, whoever asks", "B39") \
    X(UNKNOWN_REQUEST_VOID, "unknown-request-void", "asking for the result of a request without one is answered without a result", "B39") \
    X(NO_READERS_IS_ONE, "no-readers-is-one", "a lookup for 0 readers is taken as one for 1", "B27") \
    X(SESSION_HASH_TRAP, "session-hash-trap", "a request id used again with other tokens uses the first ones' hashes", "B37") \
    X(SESSION_HASHES_FROZEN, "session-hashes-frozen", "what a request's tokens have grown by since its first message is not seen", "B61") \
    X(EMPTY_REQUEST_ID_REFUSED, "empty-request-id-refused", "requests with an empty request id, or one above 1 KiB, are not answered", "implementer's slip") \
    X(END_SESSION_SILENT, "end-session-silent", "END_SESSION is not answered once no worker is registered for the model", "4.4") \
    X(END_SESSION_KEEPS_LOCKS, "end-session-keeps-locks", "END_SESSION leaves the session's locks until they expire", "B30") \
    X(END_SESSION_DROPS_CHUNKS, "end-session-drops-chunks", "END_SESSION drops the chunks that the session has stored", "B37") \
    X(END_SESSION_ABORTS_STORE, "end-session-aborts-store", "END_SESSION drops what the session has stored and is not visible yet", "B37") \
    X(END_UNKNOWN_SILENT, "end-unknown-silent", "END_SESSION of a session that is not there is not answered", "N17") \
    X(SESSIONS_STAY, "sessions-stay", "END_SESSION gives the locks back and forgets nothing", "B37") \
    /* isolation */                                                                                \
    X(SALT_NOT_IN_KEY, "salt-not-in-key", "chunks of one salt are found with another", "B18") \
    X(SALT_REFUSED_ALOUD, "salt-refused-aloud", "a request whose salt is not allowed is answered with a text", "B19") \
    X(SALT_TOO_STRICT, "salt-too-strict", "salts above 64 bytes are refused", "B19") \
    X(MODEL_JOINED_TO_SALT, "model-joined-to-salt", "model and salt of a key are one text, model@salt", "B19") \
    X(MODEL_NOT_IN_KEY, "model-not-in-key", "chunks of one model are found with another", "B24") \
    X(WORLD_NOT_IN_KEY, "world-not-in-key", "chunks of one world size are found with another", "B24") \
    X(WORKER_NOT_IN_KEY, "worker-not-in-key", "all ranks share one chunk", "B27") \
    X(HASH_NOT_CHAINED, "hash-not-chained", "a chunk's hash does not depend on the chunks before it", "B20") \
    X(HASH_DROPS_LAST_TOKEN, "hash-drops-last-token", "a chunk's hash covers all of its tokens but the last", "implementer's slip") \
    X(CHUNKS_OF_ONE_CLIENT, "chunks-of-one-client", "chunks are found only over the connection that stored them", "B21") \
    X(ODD_RANKS_TAKEN, "odd-ranks-taken", "worker ids that an object's key has no room for are taken, and fall together with others", "B24") \
    /* locks */                                                                                    \
    X(READERS_IGNORED, "readers-ignored", "LOOKUP takes one lock however many readers it is told", "B27") \
    X(FREE_IGNORES_RANGE, "free-ignores-range", "freeing a range releases the whole lookup", "B26") \
    X(FREE_FIRST_RANK_ONLY, "free-first-rank-only", "FREE_LOOKUP_LOCKS for all ranks releases only rank 0's chunks", "B27") \
    X(FREE_FORGETS_SALT, "free-forgets-salt", "FREE_LOOKUP_LOCKS looks for chunks without the salt", "B17") \
    X(FREE_TAKES_OTHERS, "free-takes-others", "FREE_LOOKUP_LOCKS releases locks of other sessions", "B28") \
    X(FREE_IGNORED, "free-ignored", "FREE_LOOKUP_LOCKS is answered and releases nothing", "B17") \
    X(FREE_SILENT, "free-silent", "FREE_LOOKUP_LOCKS is not answered once no worker is registered for the model", "4.8") \
    X(LOCKS_DO_NOT_ADD_UP, "locks-do-not-add-up", "a lookup of chunks that are locked takes no further lock", "B26") \
    X(LOCKS_OWNED, "locks-owned", "a lock lets only the request read whose lookup took it", "B24") \
    X(RETRIEVE_KEEPS_LOCK, "retrieve-keeps-lock", "RETRIEVE and COMMIT_RETRIEVE leave the chunks locked", "B26") \
    X(RETRIEVE_NEEDS_NO_LOCK, "retrieve-needs-no-lock", "chunks without a lock can be retrieved", "B31") \
    X(FAILED_RETRIEVE_KEEPS_LOCKS, "failed-retrieve-keeps-locks", "a retrieve that misses a chunk leaves the others locked", "B26") \
    X(LEASE_NOT_RESTARTED, "lease-not-restarted", "locks end with the lease of the first lookup, whoever came later", "B31") \
    X(READ_LEASE_ENDLESS, "read-lease-endless", "locks of a lookup never expire", "B26") \
    X(EXPIRED_READ_ZEROS, "expired-read-zeros", "a chunk can be read after its lease has run out, and is zeros by then", "N10") \
    /* eviction */                                                                                 \
    X(EVICTS_LOCKED, "evicts-locked", "room is made by dropping locked chunks, too", "B28") \
    X(EVICTS_NOTHING, "evicts-nothing", "a full pool stays full", "B17") \
    X(EVICTS_HALF, "evicts-half", "when the pool is nearly full half of its chunks are dropped at once", "implementer's slip") \
    X(USE_NOT_NOTED, "use-not-noted", "the chunk that was stored first goes first, however often it is used", "implementer's slip") \
    X(EVICTS_PENDING, "evicts-pending", "room is made by giving away slots that a worker is still writing", "N05") \
    X(DROPPED_ROOM_LOST, "dropped-room-lost", "the room of a reservation that is given up is never used again", "N09") \
    X(FULL_STORE_FALSE, "full-store-false", "STORE for which the pool has no room answers false", "implementer's slip") \
    /* prepare and commit */                                                                       \
    X(WRITE_LEASE_PUBLISHES, "write-lease-publishes", "a reservation that expires becomes a hit", "B32") \
    X(COMMIT_UNPREPARED_TRUE, "commit-unprepared-true", "COMMIT_STORE of what was never prepared answers true", "B33") \
    X(COMMIT_TWICE_TRUE, "commit-twice-true", "a second COMMIT_STORE answers true", "B33") \
    X(COMMIT_NEEDS_REQUEST_ID, "commit-needs-request-id", "COMMIT_STORE only matches the request id of the preparation", "implementer's slip") \
    X(COMMIT_VISIBLE_LATE, "commit-visible-late", "chunks become hits half a second after the reply to COMMIT_STORE", "implementer's slip") \
    X(EMPTY_WINDOW_SILENT, "empty-window-silent", "PREPARE_STORE of an empty or reversed window is not answered", "4.10") \
    X(COMMIT_RETRIEVE_FALSE, "commit-retrieve-false", "COMMIT_RETRIEVE answers false when nothing is pending", "implementer's slip") \
    X(CACHED_OFFERED, "cached-offered", "PREPARE_STORE offers the slots of cached chunks to be written again", "B33") \
    X(BUSY_OFFERED, "busy-offered", "PREPARE_STORE offers slots that another worker is writing", "B33") \
    X(FULL_POOL_SPLITS, "full-pool-splits", "PREPARE_STORE offers a part of the chunks when the pool is full", "B55") \
    X(UNALIGNED_ROUNDED, "unaligned-rounded", "a window that does not start and end on a chunk is rounded down", "B63") \
    X(END_UNBOUNDED, "end-unbounded", "a window may end behind the tokens", "4.10: 0.5.4") \
    X(NEGATIVE_START_CUT, "negative-start-cut", "a window that starts before token 0 is cut to what lies behind it", "4.10: 0.5.1") \
    X(NIL_WORKER_IS_ZERO, "nil-worker-is-zero", "a transfer without worker id is worker 0's", "B21") \
    /* slots and chunk indices */                                                                  \
    X(SLOTS_OVERLAP, "slots-overlap", "the second slot begins in the middle of the first", "N23") \
    X(PENDING_SLOT_REUSED, "pending-slot-reused", "a slot that is being written is given to its worker's next request as well", "N05") \
    X(SLOT_OFF_BY_PAGE, "slot-off-by-page", "PREPARE_STORE's offsets are one page too far", "N23") \
    X(SLOT_SHORT, "slot-short", "a slot's length lacks its last row", "B55") \
    X(SLOT_BEYOND_POOL, "slot-beyond-pool", "the last slot ends behind the pool", "N23") \
    X(SLOT_SHAPE_WRONG, "slot-shape-wrong", "a slot's shape has layers and K/V exchanged", "B53") \
    X(SLOT_DTYPE_WRONG, "slot-dtype-wrong", "a slot's dtype is that of torch's repr (torch.float16)", "implementer's slip") \
    X(DTYPE_WIDTH_WRONG, "dtype-width-wrong", "slots of one-byte types have room for two bytes an element", "B25") \
    X(CHUNK_INDICES_WRONG, "chunk-indices-wrong", "chunk_indices count the slots instead of the chunks", "B33") \
    X(SLOTS_REVERSED, "slots-reversed", "PREPARE_RETRIEVE gives the chunks in reverse order", "implementer's slip") \
    X(SLOTS_UNALIGNED, "slots-unaligned", "slots begin one byte behind the start of a page", "implementer's slip") \
    X(SHAPELESS_SLOTS, "shapeless-slots", "a worker whose chunks hold nothing is given slots of no length", "B64") \
    X(SLOTS_FROM_FIRST, "slots-from-first", "PREPARE_RETRIEVE's slots begin at chunk 0 wherever the window does", "implementer's slip") \
    X(PREPARE_RETRIEVE_ONCE, "prepare-retrieve-once", "a second PREPARE_RETRIEVE before COMMIT_RETRIEVE misses", "implementer's slip") \
    X(P2P_RESULT_KEPT, "p2p-result-kept", "the result of a P2P task is given again and again", "B39") \
    X(P2P_LOCKS_NOTHING, "p2p-locks-nothing", "P2P_LOOKUP_AND_LOCK finds and does not lock", "B28") \
    X(P2P_GAPS_REVERSED, "p2p-gaps-reversed", "P2P_LOOKUP_AND_LOCK finds objects behind an absent one where the dialect does not, and the reverse", "7.4") \
    X(P2P_OFFSET_WRONG, "p2p-offset-wrong", "P2P lookups give offsets one page too far", "N23") \
    /* retrieve and skip */                                                                        \
    X(MISS_IS_SUCCESS, "miss-is-success", "a retrieve that misses the last chunk answers success", "N01") \
    X(MISS_ALL_IS_SUCCESS, "miss-all-is-success", "a retrieve that misses the first chunk answers success", "N18") \
    X(EMPTY_RETRIEVE_TRUE, "empty-retrieve-true", "a retrieve of an empty window answers success", "implementer's slip") \
    X(MISS_WRITES, "miss-writes", "RETRIEVE writes the chunks that it has before it finds one missing", "N08") \
    X(SKIP_IGNORED, "skip-ignored", "skip_first_n_tokens is ignored", "B63") \
    X(SKIP_ROUNDED_UP, "skip-rounded-up", "skip_first_n_tokens is rounded up to whole blocks", "B63") \
    X(SKIP_EVERY_CHUNK, "skip-every-chunk", "skip_first_n_tokens skips in every chunk", "B63") \
    X(SCATTER_ONE_MORE, "scatter-one-more", "RETRIEVE writes one block behind the last as well", "B58") \
    X(RETRIEVE_DROPS, "retrieve-drops", "RETRIEVE drops the chunks that it has read and nobody has locked", "implementer's slip") \
    /* data and layout */                                                                          \
    X(KV_SWAPPED, "kv-swapped", "RETRIEVE exchanges K and V", "B52") \
    X(LAYERS_SWAPPED, "layers-swapped", "RETRIEVE exchanges the first two layers", "B53") \
    X(BLOCKS_ROTATED, "blocks-rotated", "STORE reads the blocks of a chunk from the second one on", "B58") \
    X(LAYOUT_HINT_IGNORED, "layout-hint-ignored", "tensors are read as HND whatever the layout hint says", "B52") \
    X(KV_FIRST_ALWAYS, "kv-first-always", "tensors with K and V in the second axis are read as if it were the first", "B52") \
    X(STRIDES_IGNORED, "strides-ignored", "a tensor with gaps is read as if it had none", "B52") \
    X(LAST_LAYER_LOST, "last-layer-lost", "STORE leaves out the last layer", "B53") \
    X(OTHER_GEOMETRY_SERVED, "other-geometry-served", "chunks are served to a worker whose geometry has the same size", "B25") \
    X(OTHER_SIZE_SERVED, "other-size-served", "chunks are served to a worker whatever its geometry", "B24") \
    /* store */                                                                                    \
    X(STORE_LOST, "store-lost", "STORE answers true and keeps nothing", "B36") \
    X(BAD_STORE_STAYS_RESERVED, "bad-store-stays-reserved", "STORE with a bad block id leaves its chunks reserved", "B33") \
    X(BAD_BLOCK_CLAMPED, "bad-block-clamped", "a block id out of range is taken for the last block", "N01") \
    X(FEW_BLOCKS_PADDED, "few-blocks-padded", "missing block ids are taken for the last one given", "B63") \
    X(CACHED_STORE_FALSE, "cached-store-false", "STORE of chunks that are cached answers false", "implementer's slip") \
    X(STORES_SIXTEEN, "stores-sixteen", "STORE keeps the first 16 chunks of its window", "implementer's slip") \
    X(STORE_REPLACES_STORE, "store-replaces-store", "a STORE of a request drops an earlier one that is not visible yet", "B61") \
    X(STORE_READS_LATE, "store-reads-late", "STORE is answered before the blocks are read", "N04") \
    X(STORE_READS_SUCCESSOR, "store-reads-successor", "a STORE that is under way when its instance leaves reads the memory of the next instance of that id", "N22") \
    X(BEHIND_GAP_LOST, "behind-gap-lost", "STORE keeps nothing of a window whose previous chunk is not there", "B61") \
    X(BLOCK_ZERO_IS_ONE, "block-zero-is-one", "block id 0 is taken for 1", "B57") \
    X(BLOCK_IDS_AS_SET, "block-ids-as-set", "block ids that are named again are left out, and the last other one put in for them", "implementer's slip") \
    X(SURPLUS_IDS_IGNORED, "surplus-ids-ignored", "block ids beyond those that the window needs are ignored", "B63") \
    X(SURPLUS_IDS_WRITTEN, "surplus-ids-written", "RETRIEVE writes the last chunk into surplus blocks as well", "N01") \
    X(SURPLUS_GROUPS_IGNORED, "surplus-groups-ignored", "lists of block ids beyond those of the groups are ignored", "N08") \
    X(EVENT_HANDLE_CHECKED, "event-handle-checked", "STORE and RETRIEVE with an empty event handle are not answered", "3.7") \
    X(NULL_BLOCK_STORED, "null-block-stored", "a chunk of null blocks is stored", "B57") \
    /* inline data */                                                                              \
    X(INLINE_FLAT, "inline-flat", "inline tensors have one dimension", "B53") \
    X(INLINE_BAD_STAYS_RESERVED, "inline-bad-stays-reserved", "inline data of a wrong shape leave their chunks reserved", "B33") \
    X(INLINE_SHAPE_UNCHECKED, "inline-shape-unchecked", "inline data of any shape are taken if the size is right", "B53") \
    X(INLINE_DTYPE_UNCHECKED, "inline-dtype-unchecked", "inline data of any dtype are taken if shape and size are right", "4.11: 0.5.1") \
    X(INLINE_REFUSED, "inline-refused", "a server with a pool does not answer COMMIT_STORE with data", "B64") \
    X(INLINE_EMPTY_SLOTS, "inline-empty-slots", "without a pool PREPARE_STORE answers with an empty list of slots", "B64") \
    X(INLINE_EMPTY_FALSE, "inline-empty-false", "COMMIT_STORE of no tensor for an empty window answers false", "implementer's slip") \
    X(INLINE_FEW_TRUE, "inline-few-true", "chunks of COMMIT_STORE without a tensor are left out, and the answer is true", "B61") \
    X(INLINE_SURPLUS_FALSE, "inline-surplus-false", "tensors beyond those of the window make COMMIT_STORE answer false", "implementer's slip") \
    /* HTTP */                                                                                     \
    X(HTTP_UNWELL, "http-unwell", "GET / and /healthcheck say 503 for ever", "B15") \
    X(VERSION_STALE, "version-stale", "GET /version and /lmc_version name the release before the dialect's", "B08") \
    X(CONFIG_STALE, "config-stale", "GET /config shows the default chunk size plus one", "B15") \
    X(STATUS_UNHEALTHY, "status-unhealthy", "GET /status says that the server is not healthy", "B15") \
    X(STATUS_EMPTY, "status-empty", "GET /status says that nothing is cached", "implementer's slip") \
    X(STATUS_MODES_SWAPPED, "status-modes-swapped", "GET /status lists the instances of each mode as the other's", "implementer's slip") \
    X(STATUS_FIRST_GROUP, "status-first-group", "GET /status shows only the first group of an instance's layers", "B53") \
    X(HTTP_UNKNOWN_OK, "http-unknown-ok", "a path that there is not is answered with status 200", "B15") \
    X(HTTP_METHOD_IGNORED, "http-method-ignored", "a path answers whatever the method", "implementer's slip") \
    X(HTTP_ERRORS_500, "http-errors-500", "a request whose body makes no sense is answered with status 500", "B15") \
    X(HTTP_CLEAR_IDLE, "http-clear-idle", "POST /cache/clear empties nothing", "B70") \
    X(HTTP_CLEAR_FIRST, "http-clear-first", "POST /cache/clear clears before it reads what it was sent", "B70") \
    X(HTTP_CLEAR_FORCED, "http-clear-forced", "POST /cache/clear always drops locked chunks", "8.3: 0.5.1") \
    X(HTTP_CLEAR_GENTLE, "http-clear-gentle", "POST /cache/clear never drops locked chunks", "B70") \
    X(QUOTA_UNCHECKED, "quota-unchecked", "a quota may be negative", "implementer's slip") \
    X(QUOTA_STAYS, "quota-stays", "a quota that is removed stays", "implementer's slip") \
    X(CHECKSUM_NEXT_BLOCK, "checksum-next-block", "/cache/checksums digests each block's neighbour", "N20") \
    X(CHECKSUM_BF16_RAW, "checksum-bf16-raw", "/cache/checksums digests bfloat16 as it is", "8.2") \
    X(CHECKSUM_UNKNOWN_500, "checksum-unknown-500", "/cache/checksums of an unknown instance answers 500", "B15") \
    X(CHECKSUM_BAD_BLOCK_500, "checksum-bad-block-500", "/cache/checksums of a block that there is not answers 500", "B15") \
    X(CHECKSUM_MISCOUNTS, "checksum-miscounts", "num_chunks of /cache/checksums counts blocks", "implementer's slip") \
    X(CHECKSUM_ALL_LAYERS, "checksum-all-layers", "a layerwise checksum covers all layers", "implementer's slip") \
    /* L2 */                                                                                       \
    X(L2_NOT_ASKED, "l2-not-asked", "LOOKUP does not look below the memory", "implementer's slip") \
    X(L2_EXISTENCE_COUNTS, "l2-existence-counts", "LOOKUP counts chunks that there are below, also where they cannot be loaded", "N16") \
    X(L2_FAILED_LOAD_SERVED, "l2-failed-load-served", "a chunk whose load from below failed becomes a hit", "B35") \
    X(L2_LONGER_SERVED, "l2-longer-served", "an object below of twice a chunk's size is served by its first half", "B24") \
    X(L2_PREVIOUS_SERVED, "l2-previous-served", "a chunk from below has the bytes of the one that was loaded before", "B35") \
    X(L2_RANK_NOT_IN_NAME, "l2-rank-not-in-name", "the names of objects below do not have the rank", "B24") \
    X(L2_SALT_NOT_IN_NAME, "l2-salt-not-in-name", "the names of objects below do not have the salt", "B18") \
    X(L2_NAMES_CUT, "l2-names-cut", "the names of objects below have the first 64 bytes of the model's name", "B24") \
    X(L2_LOCK_FILES, "l2-lock-files", "a file named after the model as it is lies beside the objects below", "implementer's slip") \
    X(L2_NEVER_REPLACED, "l2-never-replaced", "an object that there is below is not written again", "implementer's slip") \
    X(L2_HALF_REPLACED, "l2-half-replaced", "a chunk that is written below again keeps its old second half", "B36") \
    X(L2_STORED_IN_PLACE, "l2-stored-in-place", "an object below has its name and size before it has its bytes", "B36") \
    X(L2_EMPTIED_AT_START, "l2-emptied-at-start", "what lies below is removed when the mock starts", "implementer's slip") \
    X(L2_FAILURE_KILLS, "l2-failure-kills", "a chunk that cannot be written below ends the request loop", "implementer's slip") \
    X(L2_FOLDER_WATCHED, "l2-folder-watched", "the request loop ends when the folder below is gone", "implementer's slip") \
    /* cuda */                                                                                     \
    X(EVENT_NOT_AWAITED, "event-not-awaited", "a GPU's blocks are copied without waiting for the event that the call names", "B49") \
    X(REPLY_EVENT_DESTROYED, "reply-event-destroyed", "the event that a reply names is destroyed before the reply is sent", "B48") \
    X(ALLOC_OFFSET_IGNORED, "alloc-offset-ignored", "a tensor on a GPU is taken to begin where its allocation does", "N26") \
    X(STORAGE_OFFSET_IGNORED, "storage-offset-ignored", "a tensor on a GPU is taken to begin where the storage that torch shares does", "N26") \
    X(MAPPING_UNCOUNTED, "mapping-uncounted", "a worker that leaves takes the mapping of its GPU memory from others that use it", "N21") \
    X(MAPPING_KEPT, "mapping-kept", "the GPU memory of a worker that is gone stays mapped", "B43") \
    X(MAPPED_ONCE_ONLY, "mapped-once-only", "a handle of GPU memory that was mapped before is refused", "B45")
/* clang-format on */

enum mock_defect {
#define X(identifier, name, summary, origin) MOCK_DEFECT_##identifier,
    MOCK_DEFECTS(X)
#undef X
        MOCK_DEFECT_COUNT,
};

/* Reads a NULL-terminated list of names (NULL: none) into one flag a defect. KVC_EUSAGE for a name
 * that is none, with the nearest one. */
kvc_status mock_defects_read(const char *const *names, bool on[MOCK_DEFECT_COUNT],
                             struct kvc_error *err);

#endif
