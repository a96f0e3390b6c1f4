// HTTP/1.1 over TCP, TLS or a Unix socket: bytes of clients become requests, and answers, whole or streamed, go back.
// What a path means is the handler's matter.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kda {

/// Names and values of header fields.
using HttpFields = std::vector<std::pair<std::string, std::string>>;

/// A request before its body.
struct HttpRequestHead {
  std::string method;  // upper case
  std::string path;    // of the target, without the query, percent-encoding left in; begins with '/'
  std::string query;   // behind '?', percent-encoding left in
  HttpFields fields;   // names in lower case, in the order of arrival
  std::string peer;    // "127.0.0.1:50312", "[::1]:50312", or "unix"

  /// The value of the first field of that name (lower case), empty when there is none.
  [[nodiscard]] std::string_view header(std::string_view name) const noexcept;
};

struct HttpRequest : HttpRequestHead {
  std::string body;
};

/// A whole answer. Content-Length, Date, Connection and the CORS fields are added by the server; `fields` has others.
struct HttpResponse {
  int status = 200;
  std::string content_type;  // empty: no such field
  std::string body;
  HttpFields fields;
};

/// An error in OpenAI's shape: {"error":{"message","type","param","code"}}. Empty code and param become null.
[[nodiscard]] HttpResponse http_error(int status, std::string_view message, std::string_view type,
                                      std::string_view code = {}, std::string_view param = {});

/// Text with %XX resolved ('+' stays); nothing when an escape is malformed.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text);

struct HttpServerCore;
struct HttpReplyState;

/// Where the answer to one request goes. Every function may be called from any thread, never blocks and never throws
/// (but std::bad_alloc); after the end, or when the client is gone, calls do nothing. Bytes go out on the server's
/// thread. A reply that is dropped before its end answers 500, or cuts a stream off so that the client notices.
class HttpReply {
 public:
  explicit HttpReply(std::shared_ptr<HttpReplyState> state) noexcept;
  ~HttpReply();
  HttpReply(const HttpReply&) = delete;
  HttpReply& operator=(const HttpReply&) = delete;

  /// The whole answer, and its end.
  void send(HttpResponse response);
  void send(int status, std::string content_type, std::string body, HttpFields fields = {});

  /// The head of an answer whose body comes in pieces (chunked; to HTTP/1.0 clients ended by closing).
  void start_stream(int status, std::string content_type, HttpFields fields = {});
  /// Queues a piece of the body. False: nobody will read it. When more than max_queued_bytes wait for a client that
  /// does not read, the connection is closed.
  bool write(std::string_view piece);
  /// The end of a stream.
  void finish();
  /// Writes `piece` whenever nothing was written for that long, from start_stream() to the end. Server-sent events take
  /// ": ping\n\n" and show it to nobody, while proxies and clients see that the connection lives.
  void keep_alive(std::string piece, std::chrono::milliseconds silence);

  /// `callback` runs once, on the server's thread, when the client goes away (or is sent away: a write timed out, too
  /// many bytes wait, the server stops) before the answer's end was queued; also when that happened before this call.
  /// It must not throw. It is destroyed at the end, so it may hold the reply. One callback: a second replaces the
  /// first.
  void on_closed(std::function<void()> callback);
  /// The client is gone; true as soon as the server knows.
  [[nodiscard]] bool closed() const noexcept;
  /// Bytes of this answer that the system did not take yet.
  [[nodiscard]] size_t queued_bytes() const noexcept;

 private:
  std::shared_ptr<HttpReplyState> state_;
};

/// Called on the server's thread, one at a time, for each whole request; must be quick: all clients wait meanwhile. An
/// exception answers 500.
using HttpHandler = std::function<void(HttpRequest&& request, std::shared_ptr<HttpReply> reply)>;

/// Called when the head of a request is there and before its body is read, on the server's thread: an answer refuses
/// the request (and ends the connection when a body was to come). May change max_body_bytes, which holds the option's
/// value, for this request. CORS preflights are answered without it. An exception answers 500.
using HttpGate = std::function<std::optional<HttpResponse>(const HttpRequestHead& head, size_t& max_body_bytes)>;

/// One answered, refused or abandoned request, for logs.
struct HttpAccess {
  std::string peer, method, path;  // method and path are empty when the head could not be read
  int status = 0;                  // 0: none was sent
  int64_t request_bytes = 0;       // of the body
  int64_t response_bytes = 0;      // of the body
  double ms = 0;                   // from the first byte of the head
  bool aborted = false;            // the client went away, or was sent away, before the end
  std::string error;               // what was wrong with the request, or what the handler threw
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // address or name; of a name all addresses are taken
  int port = 8080;                 // 0: a free one
  std::string unix_socket;         // path; listens there and not at host and port
  std::string tls_cert, tls_key;   // PEM files, the certificate with its chain: HTTPS

  size_t max_body_bytes = size_t{32} << 20;         // 413 beyond
  size_t max_header_bytes = 32 << 10;               // request line and fields: 431 beyond
  size_t max_target_bytes = 8 << 10;                // 414 beyond
  size_t max_queued_bytes = size_t{8} << 20;        // of one streamed answer, see HttpReply::write
  size_t max_total_body_bytes = size_t{512} << 20;  // of all requests that are being received: 503 beyond
  int max_connections = 16384;                      // 503 beyond; fewer where the limit of open files says so

  std::chrono::milliseconds header_timeout{
      20'000};  // from the first byte of a head (and from connecting) to its end: 408
  std::chrono::milliseconds body_timeout{30'000};   // for the body, and a second more for every 16 KiB that came: 408
  std::chrono::milliseconds idle_timeout{75'000};   // between requests of a connection
  std::chrono::milliseconds write_timeout{60'000};  // without the client taking a byte

  std::vector<std::string> cors_origins;  // browsers at these origins may read answers; "*": any; none: no CORS fields

  HttpGate gate;
  std::function<void(const HttpAccess&)> on_access;  // on the server's thread, quick, must not throw
};

struct HttpServerStats {
  int64_t open_connections = 0;
  int64_t accepted = 0;       // connections since the start
  int64_t refused = 0;        // ... that were one too many
  int64_t requests = 0;       // that reached the handler
  int64_t refused_early = 0;  // by the gate, or malformed, too large, too slow
};

/// Listens and serves on one thread of its own. All functions are thread-safe.
class HttpServer {
 public:
  /// Nothing is opened yet. Throws Error(kUsage) for options that make no sense, and Error(kUnsupported) for TLS in a
  /// program that was built without it.
  HttpServer(HttpServerOptions options, HttpHandler handler);
  /// stop().
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Listens, and serves from now on. A socket file that nobody answers at is replaced; the limit of open files is
  /// raised as far as the system allows and max_connections needs. Throws Error(kIo) when the address cannot be had,
  /// Error(kBusy) when somebody listens there, Error(kNotFound | kIo | kFormat) for the TLS files. Once only.
  void start();
  /// No new connections; idle ones are closed, the others after the answer that they wait for.
  void stop_accepting();
  /// Closes every connection (on_closed of open replies is called), ends the thread and removes the socket file.
  /// Replies that are still held do nothing from now on. Not from a callback of this server.
  void stop();

  /// "http://127.0.0.1:8080", "https://[::1]:8080" or "unix:/run/kda.sock"; empty before start().
  [[nodiscard]] std::string url() const;
  /// The port listened at; 0 before start() and for a Unix socket.
  [[nodiscard]] int port() const noexcept;
  /// What the limit of open files left of the option; known after start().
  [[nodiscard]] int max_connections() const noexcept;
  [[nodiscard]] HttpServerStats stats() const noexcept;

  /// Runs a function on the server's thread, soon or after a while; dropped when the server stops. It must be quick.
  void post(std::function<void()> function);
  void post_after(std::chrono::milliseconds delay, std::function<void()> function);

  /// Whether this program was built with TLS.
  [[nodiscard]] static bool has_tls() noexcept;

 private:
  std::unique_ptr<HttpServerCore> core_;
};

}  // namespace kda
