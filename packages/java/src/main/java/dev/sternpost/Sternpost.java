package dev.sternpost;

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.SecureRandom;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * A throw-away server of the Kubernetes API, in a process of its own. It ends when it is closed, and with this
 * virtual machine at the latest.
 *
 * <p>The program is the one that {@code STERNPOST_BINARY} names, else the one on the {@code PATH}.
 */
public final class Sternpost implements AutoCloseable {
  private static final String BINARY_VARIABLE = "STERNPOST_BINARY";
  private static final Duration READY_TIMEOUT = Duration.ofSeconds(60);
  private static final Duration END_TIMEOUT = Duration.ofSeconds(10);

  /** How many lines of a log are kept for failures. */
  private static final int LOG_LINES = 10_000;

  private static final Pattern READY =
      Pattern.compile("sternpost is ready on (\\S+) in \\d+ ms; kubeconfig: (.+)");
  private static final Pattern TOKEN = Pattern.compile("^ *token: \"([^\"]*)\"$", Pattern.MULTILINE);
  private static final Pattern AUTHORITY =
      Pattern.compile("^ *certificate-authority-data: (\\S+)$", Pattern.MULTILINE);

  private final Process process;
  private final Log log;
  private final Thread hook;
  private final String url;
  private final Path kubeconfig;
  private final String token;
  private final byte[] authority;

  private Sternpost(Process process, Log log, Thread hook, Matcher ready) throws IOException {
    this.process = process;
    this.log = log;
    this.hook = hook;
    this.url = ready.group(1);
    this.kubeconfig = Path.of(ready.group(2));
    // The server has written the file: one cluster and one user, a line for each value.
    String text = Files.readString(kubeconfig);
    this.token = value(TOKEN, text);
    this.authority = Base64.getDecoder().decode(value(AUTHORITY, text));
  }

  /** A server with all controllers and no objects of yours. */
  public static Sternpost start() {
    return builder().start();
  }

  /** To say more about it. */
  public static Builder builder() {
    return new Builder();
  }

  /** Where it is, as {@code https://127.0.0.1:PORT}. */
  public String url() {
    return url;
  }

  /** A kubeconfig whose user may do everything. */
  public Path kubeconfig() {
    return kubeconfig;
  }

  /** The token of that user. */
  public String token() {
    return token;
  }

  /** The certificate of the server's authority, as PEM. */
  public byte[] authority() {
    return authority.clone();
  }

  /** What the server has written so far, or the last of it. */
  public String log() {
    return log.since(0);
  }

  /** How many lines it has written, for {@link #logSince}. */
  public int logLines() {
    return log.written();
  }

  /** Its log without the first lines. */
  public String logSince(int lines) {
    return log.since(lines);
  }

  /** The number of its process. */
  public long pid() {
    return process.pid();
  }

  /** One request as admin; a body is JSON. Answers that are no success are not exceptions. */
  public HttpResponse<String> request(String method, String path, String body) {
    HttpRequest.BodyPublisher content =
        body == null ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(body);
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(url + path))
            .method(method, content)
            .header("Authorization", "Bearer " + token)
            .header("Accept", "application/json")
            .header("Content-Type", "application/json")
            .build();
    try {
      HttpClient client = HttpClient.newBuilder().sslContext(trust()).build();
      return client.send(request, HttpResponse.BodyHandlers.ofString());
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(error);
    }
  }

  /** The name of a new namespace. */
  public String createNamespace() {
    String name = "test-" + Long.toHexString(new SecureRandom().nextLong());
    HttpResponse<String> answer =
        request("POST", "/api/v1/namespaces", "{\"metadata\": {\"name\": \"" + name + "\"}}");
    if (answer.statusCode() != 201) {
      throw new IllegalStateException("there is no new namespace: " + answer.body());
    }
    return name;
  }

  /** Asks for the end of a namespace and does not wait. */
  public void deleteNamespace(String name) {
    request("DELETE", "/api/v1/namespaces/" + name, null);
  }

  /** Ends the server. Nothing is left of it. */
  @Override
  public void close() {
    end(process);
    try {
      Runtime.getRuntime().removeShutdownHook(hook);
    } catch (IllegalStateException shuttingDown) {
      // The hook runs, or has run: it finds nothing to end.
    }
  }

  private SSLContext trust() {
    try {
      KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
      store.load(null, null);
      CertificateFactory factory = CertificateFactory.getInstance("X.509");
      store.setCertificateEntry("sternpost", factory.generateCertificate(new ByteArrayInputStream(authority)));
      TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
      managers.init(store);
      SSLContext context = SSLContext.getInstance("TLS");
      context.init(null, managers.getTrustManagers(), null);
      return context;
    } catch (GeneralSecurityException | IOException error) {
      throw new IllegalStateException("the server's authority is no certificate", error);
    }
  }

  private static String value(Pattern pattern, String text) {
    Matcher found = pattern.matcher(text);
    if (!found.find()) {
      throw new IllegalStateException("the kubeconfig is not of a sternpost server");
    }
    return found.group(1);
  }

  private static void end(Process process) {
    process.destroy();
    try {
      if (!process.waitFor(END_TIMEOUT.toMillis(), TimeUnit.MILLISECONDS)) {
        process.destroyForcibly().waitFor();
      }
    } catch (InterruptedException error) {
      process.destroyForcibly();
      Thread.currentThread().interrupt();
    }
  }

  /** How a server is to be started. */
  public static final class Builder {
    private final List<String> flags = new ArrayList<>();
    private Duration timeout = READY_TIMEOUT;
    private String binary;

    private Builder() {}

    /** Has the objects of a file, directory or kustomization there from the beginning. */
    public Builder load(Path path) {
      return flags("--load", path.toString());
    }

    /** Which controllers run, as {@code --controllers} has it. */
    public Builder controllers(String names) {
      return flags("--controllers=" + names);
    }

    /** None: namespaces do not finish deleting then, and garbage stays. */
    public Builder withoutControllers() {
      return controllers("-*");
    }

    /** Further flags of {@code sternpost serve}. */
    public Builder flags(String... more) {
      flags.addAll(List.of(more));
      return this;
    }

    /** How long it may take to be ready; a minute if nothing is said. */
    public Builder timeout(Duration most) {
      timeout = most;
      return this;
    }

    /** Another program than the one that is found. */
    public Builder binary(Path program) {
      binary = program.toString();
      return this;
    }

    /** The server, once it is ready. */
    public Sternpost start() {
      String variable = System.getenv(BINARY_VARIABLE);
      String program = binary != null ? binary : variable != null ? variable : "sternpost";
      List<String> command =
          new ArrayList<>(
              List.of(program, "serve", "--in-memory", "--listen", "127.0.0.1:0", "--exit-with-parent"));
      command.addAll(flags);
      ProcessBuilder builder = new ProcessBuilder(command);
      // What a test starts is what the test says, not what variables add to it.
      builder.environment().keySet().removeIf(name -> name.startsWith("STERNPOST_"));
      builder.redirectOutput(ProcessBuilder.Redirect.DISCARD);
      Process process;
      try {
        process = builder.start();
        process.getOutputStream().close();
      } catch (IOException error) {
        throw new UncheckedIOException(
            "cannot start " + program + " (is it on the PATH, or in " + BINARY_VARIABLE + "?)", error);
      }
      Thread hook = new Thread(() -> end(process), "sternpost end");
      Runtime.getRuntime().addShutdownHook(hook);
      Log log = new Log();
      CompletableFuture<Matcher> ready = new CompletableFuture<>();
      Thread reader = new Thread(() -> read(process, log, ready), "sternpost log");
      reader.setDaemon(true);
      reader.start();
      try {
        return new Sternpost(process, log, hook, ready.get(timeout.toMillis(), TimeUnit.MILLISECONDS));
      } catch (TimeoutException error) {
        throw failure("was not ready in " + timeout, process, log, hook);
      } catch (ExecutionException error) {
        throw failure("ended before it was ready", process, log, hook);
      } catch (IOException error) {
        throw failure("has no kubeconfig: " + error.getMessage(), process, log, hook);
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
        throw failure("was not waited for", process, log, hook);
      }
    }

    private static IllegalStateException failure(String what, Process process, Log log, Thread hook) {
      end(process);
      Runtime.getRuntime().removeShutdownHook(hook);
      return new IllegalStateException("the server " + what + "; its log:\n" + log.since(0));
    }
  }

  private static void read(Process process, Log log, CompletableFuture<Matcher> ready) {
    try (BufferedReader lines =
        new BufferedReader(new InputStreamReader(process.getErrorStream(), StandardCharsets.UTF_8))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        log.add(line);
        Matcher found = READY.matcher(line);
        if (found.matches()) {
          ready.complete(found);
        }
      }
    } catch (IOException error) {
      log.add("the log cannot be read: " + error.getMessage());
    }
    ready.completeExceptionally(new IOException("the log has ended"));
  }

  private static final class Log {
    private final Deque<String> lines = new ArrayDeque<>();
    private int forgotten;

    synchronized void add(String line) {
      if (lines.size() == LOG_LINES) {
        lines.removeFirst();
        forgotten++;
      }
      lines.addLast(line);
    }

    synchronized int written() {
      return forgotten + lines.size();
    }

    synchronized String since(int line) {
      List<String> kept = new ArrayList<>(lines);
      return String.join("\n", kept.subList(Math.min(Math.max(0, line - forgotten), kept.size()), kept.size()));
    }
  }
}
