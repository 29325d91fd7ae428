import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Assembles reads; the first argument chooses what it meets. */
public final class Assembler {
    static final List<byte[]> KEPT = new ArrayList<>();

    static int depth(int level) {
        return depth(level + 1) + 1;
    }

    public static void main(String[] arguments) throws Exception {
        String what = arguments.length > 0 ? arguments[0] : "";
        System.out.println("Assembler: indexing reads");
        Thread.sleep(500);
        switch (what) {
            case "grow" -> {
                for (int read = 0; ; read++) {
                    KEPT.add(new byte[1 << 20]);
                    if (read % 16 == 0) {
                        System.out.println("reads " + read * 1000);
                    }
                }
            }
            case "deep" -> System.out.println(depth(0));
            case "null" -> System.out.println(Map.of("k", 31).get("kmer").intValue());
            case "index" -> {
                int[] counts = new int[31];
                System.out.println(counts[arguments.length + 30]);
            }
            case "threads" -> {
                for (int number = 0; number < 4000; number++) {
                    Thread worker = new Thread(() -> {
                        try {
                            Thread.sleep(20000);
                        } catch (InterruptedException error) {
                            Thread.currentThread().interrupt();
                        }
                    });
                    worker.setDaemon(true);
                    worker.start();
                }
            }
            case "crash" -> {
                var field = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
                field.setAccessible(true);
                ((sun.misc.Unsafe) field.get(null)).putAddress(0, 0);
            }
            default -> System.out.println("done");
        }
    }
}
