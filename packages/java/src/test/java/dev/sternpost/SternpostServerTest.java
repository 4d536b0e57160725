package dev.sternpost;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SternpostServerTest {
  static final Path FIXTURES = Path.of("../fixtures");

  static void waitUntil(BooleanSupplier condition) throws InterruptedException {
    Instant end = Instant.now().plusSeconds(60);
    while (!condition.getAsBoolean()) {
      assertTrue(Instant.now().isBefore(end), "it did not come to pass");
      Thread.sleep(50);
    }
  }

  @Test
  void aServerAnswersAndLeavesNothingBehind() {
    Sternpost server = Sternpost.start();
    assertTrue(server.url().startsWith("https://127.0.0.1:"), server.url());
    assertEquals("ok", server.request("GET", "/readyz", null).body());
    assertTrue(Files.exists(server.kubeconfig()));
    server.close();
    server.close();
    assertFalse(Files.exists(server.kubeconfig().getParent()));
    assertTrue(ProcessHandle.of(server.pid()).isEmpty());
  }

  @Test
  void whatIsLoadedIsThere() {
    try (Sternpost server = Sternpost.builder().load(FIXTURES).start()) {
      String boat = server.request("GET", "/apis/example.com/v1/namespaces/harbour/boats/loaded", null).body();
      assertTrue(boat.contains("\"masts\":2"), boat);
    }
  }

  @Test
  void aWrongManifestFailsTheStartWithItsPlace(@TempDir Path folder) throws IOException {
    Path wrong = folder.resolve("wrong.yaml");
    Files.writeString(
        wrong, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: default\ndata:\n  a: [1]\n");
    String message =
        assertThrows(IllegalStateException.class, () -> Sternpost.builder().load(wrong).start()).getMessage();
    assertTrue(message.contains("wrong.yaml:7:"), message);
  }

  @Test
  void wrongUsesFailTheStart() {
    String flag =
        assertThrows(IllegalStateException.class, () -> Sternpost.builder().flags("--nonsense").start()).getMessage();
    assertTrue(flag.contains("--nonsense"), flag);
    String program =
        assertThrows(UncheckedIOException.class, () -> Sternpost.builder().binary(Path.of("/nowhere")).start())
            .getMessage();
    assertTrue(program.contains("/nowhere"), program);
    String late =
        assertThrows(IllegalStateException.class, () -> Sternpost.builder().timeout(Duration.ZERO).start())
            .getMessage();
    assertTrue(late.contains("was not ready in PT0S"), late);
  }

  @Test
  void controllersAreASwitch() throws InterruptedException {
    try (Sternpost bare = Sternpost.builder().withoutControllers().start()) {
      String name = bare.createNamespace();
      bare.deleteNamespace(name);
      String body = bare.request("GET", "/api/v1/namespaces/" + name, null).body();
      assertTrue(body.contains("\"phase\":\"Terminating\""), body);
    }
    try (Sternpost whole = Sternpost.start()) {
      String name = whole.createNamespace();
      whole.deleteNamespace(name);
      waitUntil(() -> whole.request("GET", "/api/v1/namespaces/" + name, null).statusCode() == 404);
    }
  }

  @Test
  void aServerEndsWithTheVirtualMachineThatStartedIt() throws IOException, InterruptedException {
    for (String end : new String[] {"halt", "exit"}) {
      ProcessBuilder builder =
          new ProcessBuilder(
                  ProcessHandle.current().info().command().orElseThrow(),
                  "-cp",
                  System.getProperty("java.class.path"),
                  Ending.class.getName(),
                  end)
              .redirectError(ProcessBuilder.Redirect.INHERIT);
      // Settings of the environment are not for it.
      builder.environment().put("STERNPOST_LOG_FORMAT", "json");
      Process machine = builder.start();
      String kubeconfig = new String(machine.getInputStream().readAllBytes(), StandardCharsets.UTF_8).trim();
      assertEquals(3, machine.waitFor());
      assertTrue(kubeconfig.endsWith("kubeconfig"), kubeconfig);
      waitUntil(() -> !Files.exists(Path.of(kubeconfig).getParent()));
    }
  }

  /** A program that starts a server and ends without closing it. */
  static final class Ending {
    public static void main(String[] words) {
      System.out.println(Sternpost.start().kubeconfig());
      System.out.flush();
      if (words[0].equals("halt")) {
        Runtime.getRuntime().halt(3);
      }
      System.exit(3);
    }
  }
}
