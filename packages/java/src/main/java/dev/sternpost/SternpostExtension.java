package dev.sternpost;

import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeTestExecutionCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.platform.commons.support.AnnotationSupport;

/** What {@link SternpostTest} does; alone it is a server with all controllers and no objects. */
// Before JUnit 5.13 stores close nothing else than what is a CloseableResource.
@SuppressWarnings("deprecation")
public final class SternpostExtension
    implements ParameterResolver, BeforeTestExecutionCallback, AfterTestExecutionCallback {
  private static final Namespace STORE = Namespace.create(SternpostExtension.class);
  private static final String CLIENT = "io.kubernetes.client.openapi.ApiClient";
  private static final String LOG_LINES = "log lines";

  @Override
  public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
    Class<?> type = parameter.getParameter().getType();
    return type == Sternpost.class
        || type.getName().equals(CLIENT)
        || (type == String.class && parameter.isAnnotated(TestNamespace.class));
  }

  @Override
  public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
    Sternpost server = server(context);
    Class<?> type = parameter.getParameter().getType();
    if (type == Sternpost.class) {
      return server;
    }
    if (type == String.class) {
      return context
          .getStore(STORE)
          .getOrComputeIfAbsent(OwnNamespace.class, key -> new OwnNamespace(server), OwnNamespace.class)
          .name;
    }
    return Client.of(server);
  }

  @Override
  public void beforeTestExecution(ExtensionContext context) {
    context.getStore(STORE).put(LOG_LINES, server(context).logLines());
  }

  @Override
  public void afterTestExecution(ExtensionContext context) {
    if (context.getExecutionException().isPresent()) {
      int before = context.getStore(STORE).getOrDefault(LOG_LINES, int.class, 0);
      System.err.println("log of sternpost during " + context.getDisplayName() + ":");
      System.err.println(server(context).logSince(before));
    }
  }

  /** It is in the store of all tests, which closes it when they have run. */
  private static Sternpost server(ExtensionContext context) {
    SternpostTest settings =
        context
            .getTestClass()
            .flatMap(type -> AnnotationSupport.findAnnotation(type, SternpostTest.class))
            .orElse(Plain.class.getAnnotation(SternpostTest.class));
    Object key = List.of(List.of(settings.load()), settings.controllers(), List.of(settings.flags()));
    return context
        .getRoot()
        .getStore(STORE)
        .getOrComputeIfAbsent(key, absent -> new Shared(start(settings)), Shared.class)
        .server;
  }

  private static Sternpost start(SternpostTest settings) {
    Sternpost.Builder builder = Sternpost.builder().controllers(settings.controllers()).flags(settings.flags());
    for (String path : settings.load()) {
      builder.load(Path.of(path));
    }
    return builder.start();
  }

  @SternpostTest
  private static final class Plain {}

  private static final class Shared implements ExtensionContext.Store.CloseableResource, AutoCloseable {
    private final Sternpost server;

    Shared(Sternpost server) {
      this.server = server;
    }

    @Override
    public void close() {
      server.close();
    }
  }

  private static final class OwnNamespace implements ExtensionContext.Store.CloseableResource, AutoCloseable {
    private final Sternpost server;
    private final String name;

    OwnNamespace(Sternpost server) {
      this.server = server;
      this.name = server.createNamespace();
    }

    @Override
    public void close() {
      server.deleteNamespace(name);
    }
  }

  /** A class of its own, so that it is loaded only where the client is there. */
  private static final class Client {
    static io.kubernetes.client.openapi.ApiClient of(Sternpost server) {
      try {
        return io.kubernetes.client.util.Config.fromConfig(server.kubeconfig().toString());
      } catch (java.io.IOException error) {
        throw new java.io.UncheckedIOException(error);
      }
    }
  }
}
